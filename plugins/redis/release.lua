-- Gives a name back, or a place in its queue.
--
-- KEYS   lock, meta, readers, queue, waiters
-- ARGV   token ('*': of any holder), what (UNLOCK, LEAVE or BREAK)
-- Returns whether it was held by the token, and why it could not be passed on or a waiter not be
-- told ('': it could).
local token, what = ARGV[1], ARGV[2]
local name = name_at(1)
local freed, failure = 0, ''

local owner = redis.pcall('GET', name.lock) -- a table: not a string, and nobody's lock
local reads = redis.call('ZSCORE', name.readers, token)
local queued = redis.call('ZSCORE', name.queue, token)

if type(owner) == 'string' and (token == '*' or owner == token) then
    redis.call('DEL', name.lock)
    freed = 1
end
local readers = readers_live(name)
if token == '*' and readers > 0 then
    for _, reader in ipairs(redis.call('ZRANGE', name.readers, 0, -1)) do
        redis.call('HDEL', name.meta, 'r' .. reader)
    end
    redis.call('DEL', name.readers)
    freed = 1
elseif reads and redis.call('ZREM', name.readers, token) == 1 then
    redis.call('HDEL', name.meta, 'r' .. token)
    freed = 1
end
if what == 'LEAVE' and queued then
    waiter_drop(name, token)
end
-- What is given back is given back, whatever becomes of the rest.
if freed == 1 or what == 'LEAVE' and queued then
    local done, why = pcall(pass_on, name)
    if not done then
        failure = type(why) == 'table' and why.err or tostring(why)
    end
end
local told = tell(name)
return { freed, failure ~= '' and failure or told }
