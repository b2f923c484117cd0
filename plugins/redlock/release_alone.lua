-- The name has no reader and no waiter.
if ARGV[3] ~= 'DEQUEUE' and redis.call('EXISTS', KEYS[1] .. ':r', KEYS[1] .. ':q') == 0 then
    local value = redis.pcall('GET', KEYS[1]) -- a table: the key is foreign
    if type(value) ~= 'string' then
        return 0
    end
    local token, round, number = string.match(value, '^(%x+) (%d+) (%d+) ')
    if value == '~' or (ARGV[1] ~= '*' and ((token or value) ~= ARGV[1] or
            (ARGV[2] ~= '*' and tonumber(round or 0) > tonumber(ARGV[2])))) then
        return 0
    end
    redis.call('DEL', KEYS[1])
    if number and number ~= '0' then -- as number_keep
        local time = redis.call('TIME')
        local ahead = number + 32 - (time[1] * 1000000 + time[2])
        if ahead > 0 then
            redis.call('SET', KEYS[1] .. ':f', number, 'PX', string.format('%.0f', math.ceil(ahead / 1000) + 1))
        end
    end
    return 1
end
