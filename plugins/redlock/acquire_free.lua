-- The name has no holder and no waiter.
if ARGV[3] == 'x' and redis.call('EXISTS', KEYS[1], KEYS[1] .. ':r', KEYS[1] .. ':q') == 0 then
    local time = redis.call('TIME')
    redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. time[1] ..
               string.format('%03d', math.floor(time[2] / 1000)) .. ' ' .. ARGV[6], 'PX', ARGV[4])
    return { 1, tonumber(ARGV[4]) }
end
