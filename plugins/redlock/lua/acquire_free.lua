-- The name has no holder and no waiter.
local is_free = ARGV[3] == 'x' and ARGV[5] == 'TRY' and
    redis.call('EXISTS', KEYS[1], KEYS[1] .. ':r', KEYS[1] .. ':q') == 0
local kept = is_free and ARGV[7] ~= '-' and redis.call('GET', KEYS[1] .. ':f') or '0'
if is_free and string.match(kept, '^%d+$') and kept + 32 < 9007199254740992 then -- as number_last
    local time, number, clock = redis.call('TIME'), 0, 0
    if ARGV[7] ~= '-' then -- as number_next and lock_set
        clock = time[1] * 1000000 + time[2]
        local least = math.max(kept + 32, clock)
        number = tonumber(ARGV[7])
        if number < least or number >= clock + ARGV[4] * 500 then
            number = least
        end
        redis.call('SET', KEYS[1] .. ':f', string.format('%.0f', number), 'PX', 86400000)
    end
    redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. string.format('%.0f', number) .. ' ' .. time[1] ..
               string.format('%03d', math.floor(time[2] / 1000)) .. ' ' .. ARGV[6], 'PX', ARGV[4])
    return { 1, tonumber(ARGV[4]), number, clock }
end
