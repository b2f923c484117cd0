-- Nobody waits behind an exclusive holder, who has no readers beside it; or there is nothing at all.
-- The answer to the former is the question alone: a table takes the server longer.
local holder = redis.pcall('GET', KEYS[1]) -- a table: not a string, and nobody's lock
local mine = holder == ARGV[1] or ARGV[1] == '*' and type(holder) == 'string'
if mine then
    if redis.call('EXISTS', KEYS[4]) == 0 then
        redis.call('DEL', KEYS[1])
        return tonumber(ARGV[4])
    end
elseif redis.call('EXISTS', KEYS[3], KEYS[4]) == 0 then
    return { 0, '', tonumber(ARGV[4]) }
end
