-- Nobody reads, and nobody waits.
if redis.call('EXISTS', KEYS[3], KEYS[4]) == 0 then
    local holder = redis.pcall('GET', KEYS[1]) -- a table: not a string, and nobody's lock
    if type(holder) == 'string' and (ARGV[1] == '*' or holder == ARGV[1]) then
        redis.call('DEL', KEYS[1])
        return { 1, '', tonumber(ARGV[4]) }
    end
    return { 0, '', tonumber(ARGV[4]) }
end
