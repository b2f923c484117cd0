local raw, token = KEYS[3], ARGV[1]
local owner = raw_owner(raw)
if type(owner) == 'table' and not ends_by_itself(raw) then
    return owner
end
if owner and owner ~= token then
    return { 0, math.max(redis.call('PTTL', raw), -1), 0, 0, 0, 0, tonumber(ARGV[#ARGV]) }
end
local result = lock_key()
local lease = type(result) == 'string' and ARGV[3] or result[1] == 1 and result[3]
if lease then
    redis.call('SET', raw, token, 'PX', lease)
end
return result
