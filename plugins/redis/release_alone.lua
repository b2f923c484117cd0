-- Nobody waits behind an exclusive holder, who has no readers beside it; or there is nothing at all.
local holder = redis.pcall('GET', KEYS[1]) -- a table: not a string, and nobody's lock
local mine = type(holder) == 'string' and (ARGV[1] == '*' or holder == ARGV[1])
local first = mine and redis.pcall('ZRANGE', KEYS[4], '0', '0')
if mine then
    if not first[1] and not first.err then
        redis.call('DEL', KEYS[1])
        return { 1, '', tonumber(ARGV[4]) }
    end
elseif redis.call('EXISTS', KEYS[3], KEYS[4]) == 0 then
    return { 0, '', tonumber(ARGV[4]) }
end
