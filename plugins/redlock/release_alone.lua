-- The name has no reader and no waiter.
if ARGV[3] ~= 'DEQUEUE' and redis.call('EXISTS', KEYS[1] .. ':r', KEYS[1] .. ':q') == 0 then
    local value = redis.pcall('GET', KEYS[1]) -- a table: the key is foreign
    if type(value) ~= 'string' then
        return 0
    end
    if ARGV[2] == '*' and string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ' ' then
        redis.call('DEL', KEYS[1])
        return 1
    end
    local token, round = string.match(value, '^(%x+) (%d+) ')
    if value ~= '~' and (ARGV[1] == '*' or (token or value) == ARGV[1] and
            (ARGV[2] == '*' or tonumber(round or 0) <= tonumber(ARGV[2]))) then
        redis.call('DEL', KEYS[1])
        return 1
    end
    return 0
end
