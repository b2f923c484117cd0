-- SPDX-License-Identifier: MIT
-- One attempt to take a name.
--
-- KEYS   lock, meta
-- ARGV   token, mode (x, s or the limit of a semaphore), ttl, what (TRY, ENQUEUE or REFRESH), how long a queue entry lasts, channel
--        ('-': none), label, number of the request
-- Returns "fence number": granted, and no waiter is queued
--     or  1, fence, lease, waiters, number; of a semaphore the permit before the number
--     or  2, the limit that the name has now, number: another one than this request's
--     or  0, the time that the holder has left (-1: not known), waiters, 1 if queued, waiters before this one,
--         the last fence, number
-- @include same.lua
-- @if guarded
-- @include guard.lua
local refusal = guard.refuse_grants()
if refusal then
    return refusal
end
-- @end
-- @if plain raw
if not is_same then
    return refuse_other()
end
-- @end
-- @if raw
-- @include raw.lua
local function lock_key()
-- @end
-- @include fence.lua

-- The name has no holder and no waiter. The answer is fence and number in one string: a table takes the
-- server longer.
local others = string.sub(KEYS[2], 1, -2) -- see name_at in queue.lua
if ARGV[2] == 'x' and ARGV[4] ~= 'REFRESH' and
        call('EXISTS', KEYS[1], others .. 'r', others .. 'q') == 0 then
    local fence, fresh, waits = fence_next(KEYS[2])
    if not waits then
        become_owner(KEYS[1], KEYS[2], ARGV[1], ARGV[3], ARGV[7], fence, fresh)
        return fence .. ' ' .. ARGV[8]
    end
end

-- @include queue.lua
-- @include name.lua

local token, mode, ttl, what = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local waiter_ttl, channel, label = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local lease = math.min(waiter_ttl, ttl) -- of a grant to the queue entry
local QUEUE_LEAST, QUEUE_TTL = 1000, 10000 -- ms by which a queue outlives its entries: at least, and when set
local name = name_at(1)
local owner = call('GET', name.lock)
local known = call('HMGET', name.meta, 'f', 'l')
local last_fence, shared_limit = known[1], known[2]
local limit = tonumber(mode)

-- The limit of those who have the name or wait for it, if it is not that of the request.
local function other_limit()
    local present = owner and 1
    if not owner and (limit or shared_limit) then
        local _, head = queue_head(name)
        if readers_live(name) > 0 then
            present = tonumber(shared_limit or 1)
        elseif head then
            present = tonumber(head) or 1
        end
    end
    return present and present ~= (limit or 1) and present
end

-- A new fence for a lease whose record in meta is lost. first: the beginning of the record; nil: the record
-- begins with the fence.
local function fence_anew(field, first)
    local fence = fence_next(name.meta)
    call('HDEL', name.meta, '-') -- a first write that needs no memory: then no later one is refused
    call('HSET', name.meta, 'f', fence, field,
         (first or fence) .. ' ' .. moment .. ' ' .. label)
    meta_keep(name.meta, ttl, true)
    return tonumber(fence)
end

-- Nothing shortens a lease: its holder may rely on it.
local function held_by_me(owner)
    if owner == token then
        local left = call('PTTL', name.lock)
        if left < ttl then
            call('PEXPIRE', name.lock, ttl)
        end
        return { 1, fence_read(last_fence) or fence_anew('h', token), math.max(left, ttl) }
    end
    local ends = not owner and tonumber(call('ZSCORE', name.readers, token) or 0)
    if ends and ends >= now then
        call('ZREM', name.readers, '-') -- a first write that needs no memory, as above
        readers_set(name, token, math.max(ends, now + ttl))
        return { 1, reader_fence(name, token) or fence_anew('r' .. token),
                 math.max(ends - now, ttl) }
    end
end

-- nil: the fence has to wait.
local function take(queued)
    local fence, fresh, waits = fence_next(name.meta)
    if waits then
        return nil
    end
    if queued then
        waiter_drop(name, token)
    end
    if mode ~= 'x' then
        become_reader(name, token, ttl, label, limit, fence, fresh)
    else
        become_owner(name.lock, name.meta, token, ttl, label, fence, fresh)
    end
    return { 1, tonumber(fence), ttl }
end

-- A live waiter is never passed: the first waiter gets a free name, also when another client asks.
local function try()
    local held = held_by_me(owner)
    if held or owner then
        return held
    end
    local head = queue_head(name)
    if head and head ~= token then
        pass_on(name)
        held = held_by_me() -- pass_on grants to several readers
        if held or call('EXISTS', name.lock) == 1 then
            return held
        end
        head = queue_head(name)
    end
    if (not head and what ~= 'REFRESH') or head == token then
        if mode == 's' and not shared_limit or mode ~= 'x' and has_room(name, mode) or
                mode == 'x' and readers_live(name) == 0 then
            local taken = take(head == token)
            if taken and head == token and mode ~= 'x' then
                pcall(pass_on, name) -- the others of its kind; the grant stands, even if this fails
            end
            return taken
        end
    end
    return nil
end

-- Sets when queue and waiters expire: so far ahead that few calls have to. fresh: the queue's key is new, and
-- has no expiry yet.
local function queue_keep(ends, fresh)
    local least, far = now + waiter_ttl + QUEUE_LEAST, now + waiter_ttl + QUEUE_TTL
    ends = fence_read(ends) or 0
    if ends < least then
        call('HSET', name.waiters, 'x', far)
        call('PEXPIREAT', name.waiters, far)
        call('PEXPIREAT', name.queue, far)
    elseif fresh then
        call('PEXPIREAT', name.queue, ends)
    end
end

-- Adds or refreshes the queue entry. Returns the number of waiters, and of the waiters before this one; nil:
-- REFRESH without a queue entry.
local function enqueue()
    local known = call('HMGET', name.waiters, token, 'n', 'x')
    local rank = waiter_read(known[1]) and call('ZRANK', name.queue, token)
    local number = fence_read(known[2]) or
        fence_read(call('ZRANGE', name.queue, -1, -1, 'WITHSCORES')[2]) or 0
    if rank then
        call('HDEL', name.waiters, '-') -- a first write that needs no memory, as above
    elseif what == 'REFRESH' then
        waiter_drop(name, token)
        return nil
    else
        number = math.max(number + 1, tonumber(moment))
        call('ZADD', name.queue, number, token)
    end
    meta_keep(name.meta, waiter_ttl)
    local count = call('ZCARD', name.queue)
    call('HSET', name.waiters, 'n', number, token, now + waiter_ttl .. ' ' .. mode .. ' ' ..
               lease .. ' ' .. #channel .. ' ' .. channel .. ' ' .. label)
    queue_keep(known[3], count == 1)
    rank = rank or count - 1
    if rank > 0 and queue_head_died(name) then
        count = waiters_reap(name)
        rank = call('ZRANK', name.queue, token)
    end
    return count, rank
end

-- The time that the holder has left; of several readers, the last one's; of permits, the first one's.
local function holder_left()
    local left = call('PTTL', name.lock)
    if left == -2 then
        local which = limit and 0 or -1
        local last = call('ZRANGE', name.readers, which, which, 'WITHSCORES')
        left = last[2] and tonumber(last[2]) - now or -1
    end
    return math.max(left, -1)
end

local other = other_limit()
if other then
    return { 2, other, tonumber(ARGV[8]) }
end
local result = try()
if result then
    local waiting = redis.pcall('ZCARD', name.queue) -- granted, even if the queue's key is foreign
    result[4] = type(waiting) == 'number' and waiting or 0
    if limit then
        result[5] = tonumber(call('HGET', name.meta, 'p' .. token) or 0)
    end
else
    local waiting, rank
    if what ~= 'TRY' then
        waiting, rank = enqueue()
    end
    if waiting then
        result = { 0, holder_left(), waiting - 1, 1, rank, fence_read(last_fence) or 0 }
    else
        waiting = call('ZCARD', name.queue)
        result = { 0, holder_left(), waiting, 0, waiting, fence_read(last_fence) or 0 }
    end
end
table.insert(result, tonumber(ARGV[8]))
return result
-- @if raw
end

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
-- @end
