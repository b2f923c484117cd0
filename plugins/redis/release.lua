-- Gives a name back, or a place in its queue.
--
-- KEYS   lock, meta, readers, queue, waiters
-- ARGV   token ('*': of any holder), what (UNLOCK, LEAVE or BREAK)
-- Returns whether it was held by the token, and why a waiter could not be told ('': it could).
local token, what = ARGV[1], ARGV[2]
local name = name_at(1)
local freed, left = 0, false

local owner = redis.pcall('GET', name.lock) -- a table: not a string, and nobody's lock
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
elseif redis.call('ZREM', name.readers, token) == 1 then
    redis.call('HDEL', name.meta, 'r' .. token)
    freed = 1
end
if what == 'LEAVE' and redis.call('ZSCORE', name.queue, token) then
    waiter_drop(name, token)
    left = true
end
if freed == 1 or left then
    pass_on(name)
end
return { freed, tell(name) }
