-- A place among those who wait for a name, or the same kept.
--
-- KEYS   lock
-- ARGV   token, ticket, mode (x or s), how long the place lasts, channel
-- Returns whether the name is free for the token here; what the holder has left (-1: not known)
local token, ticket, mode, lasts, channel = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local name = name_at(KEYS[1])

redis.call('ZREMRANGEBYSCORE', name.queue, '-inf', '-1') -- a write, so that it works without memory to spare
redis.call('ZADD', name.queue, 'NX', ticket, token)
redis.call('HSET', name.places, token, text(now + lasts) .. ' ' .. mode .. ' ' .. channel)
local keep = math.max(redis.call('PTTL', name.queue), lasts + 1000)
redis.call('PEXPIRE', name.queue, keep)
redis.call('PEXPIRE', name.places, keep)
pass_on(name, token)
tell(name)
local left = blocked(name, token, mode, true)
return { left and 0 or 1, left and math.max(left, -1) or -1 }
