-- Releases a name, or a queue entry.
--
-- KEYS   lock, meta
-- ARGV   token ('*': of any holder), what (UNLOCK, CLEAR, DEQUEUE or BREAK; UNLOCK alone may leave the record of an
--        exclusive holder, with its data, to the next one), 1 to pass nothing on, number of the request
-- Returns the number: the token held the name, and there was no waiter
--     or  whether the token held the name, why it was not passed on or a waiter got no message ('': no
--         failure), number
local token, what = ARGV[1], ARGV[2]
local freed, failure = 0, ''
local reads = not mine and redis.pcall('ZSCORE', name.readers, token)
if type(reads) == 'table' then -- the key is foreign, so that the token is no reader
    if what == 'BREAK' then
        return reads
    end
    reads = nil
end
local left = not mine and what == 'DEQUEUE' and redis.pcall('ZSCORE', name.queue, token)
if type(left) == 'table' then
    if not reads then
        return left
    end
    left = nil
end

if mine then
    call('DEL', name.lock)
    if what ~= 'UNLOCK' then
        redis.pcall('HDEL', name.meta, 'h')
    end
    freed, holder = 1, nil
elseif token == '*' and readers_live(name) > 0 then
    readers_remove(name, call('ZRANGE', name.readers, 0, -1))
    freed = 1
elseif reads then
    readers_remove(name, { token })
    freed = tonumber(reads) >= now and 1 or freed
end
if left then
    waiter_drop(name, token)
end
if what == 'BREAK' and freed == 0 then
    call('ZCARD', name.queue) -- as inspect does: a name with a foreign key is not free
    call('HGET', name.meta, 'f')
end
-- The release stands, even if passing on fails.
if (freed == 1 or left) and not holder and ARGV[3] == '0' then
    local done, why = pcall(pass_on, name)
    if not done then
        failure = type(why) == 'table' and why.err or tostring(why)
    end
end
return { freed, failure ~= '' and failure or name.publish_error, tonumber(ARGV[4]) }
