-- SPDX-License-Identifier: MIT
-- Time and numbers.
local call = redis.call
local time = call('TIME')
local moment = time[1] .. string.sub('00000' .. time[2], -6) -- microseconds since 1970, as text

local FENCE_STEP = 32 -- a grant has its number, and the numbers up to the next step for hand-offs
local META_TTL = 86400000 -- ms by which meta outlives a lease; later the clock keeps the fence rising
local META_LEAST = 3600000 -- ms; only when less is left, the expiry is set again
local FENCE_AHEAD = 1000000 -- microseconds
local FENCE_END = 2 ^ 53 -- larger numbers are not exact

-- The number in a text; nil: no number that we wrote, which counts as lost.
local function fence_read(kept)
    local fence = tonumber(kept or '')
    return fence and fence >= 0 and fence < FENCE_END and fence or nil
end

-- The next fence, as text; whether there was none before; and whether it has to wait for the clock: by grants without a
-- pause fences would run ahead of it, and a server that forgets the counter would begin below them. A fence that is
-- farther ahead is not from grants: the clock was set back, and nobody waits for that.
local function fence_next(meta)
    local last = call('HGET', meta, 'f')
    local fence = (fence_read(last) or 0) + FENCE_STEP
    local ahead = fence - tonumber(moment)
    if ahead <= 0 then
        return moment, not last
    end
    return string.format('%.0f', fence), not last, ahead > FENCE_AHEAD and ahead < 2 * FENCE_AHEAD
end

-- meta outlives the lease or the queue entry of this length. fresh: meta has no expiry yet.
local function meta_keep(meta, lease, fresh)
    local left = fresh and 0 or call('PTTL', meta)
    if left < lease + META_LEAST then
        call('PEXPIRE', meta, lease + META_TTL)
    end
end

-- The fence is written first, and the lock last: a script that is refused or ends half-way has used up a
-- number at most. fence and fresh: of fence_next. kept: meta_keep was called for the queue entry.
local function become_owner(lock, meta, token, lease, label, fence, fresh, kept)
    call('HSET', meta, 'f', fence, 'h', token .. ' ' .. moment .. ' ' .. label)
    if fresh or not kept then
        meta_keep(meta, lease, fresh)
    end
    call('SET', lock, token, 'PX', lease)
end
