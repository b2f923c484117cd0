-- SPDX-License-Identifier: MIT
-- Time and numbers.
local call = redis.call
local time = call('TIME')
local moment = time[1] .. string.sub('00000' .. time[2], -6) -- microseconds since 1970, as text

local FENCE_STEP = 32 -- a grant has a number and as many more as are left until the next
local META_TTL = 86400000 -- ms after the last lease; later the clock keeps the fence rising
local META_LEAST = 3600000 -- ms; the end is not set anew each time
local FENCE_END = 2 ^ 53 -- larger ones would not be exact

-- The number that a text is; nil: none that we wrote, and as good as lost.
local function fence_read(kept)
    local fence = tonumber(kept or '')
    return fence and fence >= 0 and fence < FENCE_END and fence or nil
end

-- The next number, as text, and whether there was none before.
local function fence_next(meta)
    local last = call('HGET', meta, 'f')
    local fence = (fence_read(last) or 0) + FENCE_STEP
    return fence > tonumber(moment) and string.format('%.0f', fence) or moment, not last
end

-- What is known of a name lasts longer than a lease, and than a place in the queue. fresh: it has no
-- end yet.
local function meta_keep(meta, lease, fresh)
    local left = fresh and 0 or call('PTTL', meta)
    if left < lease + META_LEAST then
        call('PEXPIRE', meta, lease + META_TTL)
    end
end

-- The fence is written first, and what makes the holder last: a script that is refused or ends
-- half-way has burned a number at most. kept: meta_keep was called for its place in the queue.
local function become_owner(lock, meta, token, lease, label, kept)
    local fence, fresh = fence_next(meta)
    call('HSET', meta, 'f', fence, 'h', token .. ' ' .. moment .. ' ' .. label)
    if fresh or not kept then
        meta_keep(meta, lease, fresh)
    end
    call('SET', lock, token, 'PX', lease)
    return fence
end
