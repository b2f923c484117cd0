-- SPDX-License-Identifier: MIT
-- Time and numbers.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local moment = time[1] .. string.sub('00000' .. time[2], -6) -- micros as text, quickly made

local FENCE_STEP = 32 -- a grant has a number and as many more as are left until the next
local META_TTL = 86400000 -- ms after the last lease; later the clock keeps the fence rising
local META_LEAST = 3600000 -- ms; the end is not set anew each time

-- The next number as number and text, and the moment at which meta ends ('': not known).
local function fence_next(meta)
    local known = redis.call('HMGET', meta, 'f', 'e')
    local fence = (tonumber(known[1] or 0) or 0) + FENCE_STEP
    if fence > micros then
        return fence, string.format('%.0f', fence), known[2]
    end
    return micros, moment, known[2]
end

-- What is known of a lease lasts longer than the lease.
local function meta_keep(meta, ends, lease)
    if (tonumber(ends or 0) or 0) < now + lease + META_LEAST then
        ends = string.format('%.0f', now + lease + META_TTL)
        redis.call('HSET', meta, 'e', ends)
        redis.call('PEXPIREAT', meta, ends)
    end
end

-- The fence is written first, and what makes the holder last: a script that is refused or ends
-- half-way has burned a number at most.
local function become_owner(name, token, lease, label)
    local fence, text, ends = fence_next(name.meta)
    redis.call('HSET', name.meta, 'f', text, 'h', token .. ' ' .. moment .. ' ' .. label)
    meta_keep(name.meta, ends, lease)
    redis.call('SET', name.lock, token, 'PX', lease)
    return fence, text
end
