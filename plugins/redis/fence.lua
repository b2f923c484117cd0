-- SPDX-License-Identifier: MIT
-- Time and numbers.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)

local FENCE_STEP = 32 -- a grant has a number and as many more as are left until the next
local META_TTL = 86400 -- s; later the clock keeps the fence rising
local META_RENEWED = 3600000 -- ms; the end is not set anew each time

-- The next number, and the moment at which the end of meta was last set: now, if that is long ago.
local function fence_next(meta)
    local known = redis.call('HMGET', meta, 'f', 'e')
    local fence = (tonumber(known[1] or 0) or 0) + FENCE_STEP
    local ends = tonumber(known[2] or 0) or 0
    if ends > now or ends + META_RENEWED < now then
        ends = now
    end
    return math.max(fence, micros), ends
end

local function meta_keep(meta, ends)
    if ends == now then
        redis.call('EXPIRE', meta, META_TTL)
    end
end

-- The fence is written first, and what makes the holder last: a script that is refused or ends
-- half-way has burned a number at most.
local function become_owner(lock, meta, token, lease, label)
    local fence, ends = fence_next(meta)
    redis.call('HSET', meta, 'f', fence, 'o', token, 's', now, 'l', label, 'e', ends)
    meta_keep(meta, ends)
    redis.call('SET', lock, token, 'PX', lease)
    return fence
end
