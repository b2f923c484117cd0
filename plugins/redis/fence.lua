-- SPDX-License-Identifier: MIT
-- Time and numbers.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local moment = time[1] .. string.sub('00000' .. time[2], -6) -- micros as text, quickly made

local FENCE_STEP = 32 -- a grant has a number and as many more as are left until the next
local META_TTL = 86400000 -- ms after the last lease; later the clock keeps the fence rising
local META_LEAST = 3600000 -- ms; the end is not set anew each time

-- The next number, as text.
local function fence_next(meta)
    local fence = (tonumber(redis.call('HGET', meta, 'f') or 0) or 0) + FENCE_STEP
    return fence > micros and string.format('%.0f', fence) or moment
end

-- What is known of a lease lasts longer than the lease. left: until it ends, now.
local function meta_keep(meta, lease, left)
    if left < lease + META_LEAST then
        redis.call('PEXPIRE', meta, lease + META_TTL)
    end
end

-- The fence is written first, and what makes the holder last: a script that is refused or ends
-- half-way has burned a number at most.
local function become_owner(lock, meta, token, lease, label)
    local fence = fence_next(meta)
    redis.call('HSET', meta, 'f', fence, 'h', token .. ' ' .. moment .. ' ' .. label)
    meta_keep(meta, lease, redis.call('PTTL', meta))
    redis.call('SET', lock, token, 'PX', lease)
    return fence
end
