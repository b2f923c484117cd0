-- The name has no reader and no waiter.
if ARGV[3] ~= 'DEQUEUE' and redis.call('EXISTS', KEYS[1] .. ':r', KEYS[1] .. ':q') == 0 then
    local value = redis.pcall('GET', KEYS[1]) -- a table: the key is foreign
    if type(value) ~= 'string' then
        return 0
    end
    local token, round = string.match(value, '^(%x+) (%d+) ')
    if value == '~' or (ARGV[1] ~= '*' and ((token or value) ~= ARGV[1] or
            (ARGV[2] ~= '*' and tonumber(round or 0) > tonumber(ARGV[2])))) then
        return 0
    end
    return redis.call('DEL', KEYS[1])
end
