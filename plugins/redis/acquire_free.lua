-- Nobody holds the name, and nobody waits for it.
if ARGV[2] == 'x' and ARGV[4] ~= 'REFRESH' and
        redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4]) == 0 then
    local fence = become_owner({ lock = KEYS[1], meta = KEYS[2] }, ARGV[1], ARGV[3], ARGV[7])
    return { 1, fence, tonumber(ARGV[3]), 0, tonumber(ARGV[8]) }
end
