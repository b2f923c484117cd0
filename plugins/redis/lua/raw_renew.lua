-- A lease is renewed if the token holds both keys.
local results = lock_key()
local count = #results - 1
for i = 1, count do
    local raw, ttl = KEYS[2 * count + i], results[i][1]
    if ttl and ttl > 0 then
        if raw_owner(raw) ~= ARGV[3 * i - 2] then
            results[i] = { 0, 0 }
        elseif redis.call('PTTL', raw) < ttl then
            redis.call('PEXPIRE', raw, ttl)
        end
    end
end
return results
