-- SPDX-License-Identifier: MIT
-- What the scripts know of a name. Each is put together from several files when dlock is built; see
-- CMakeLists.txt.
--
--   lock     string: the token of the exclusive holder, with the lease as its time to live. While it
--            is there, readers is not
--   meta     hash: f the last fence; h "token beginning label" of the exclusive holder; r<token>
--            "fence beginning label" of a reader
--   readers  sorted set: tokens of readers, by the end of their leases
--   queue    sorted set: tokens of waiters, in the order of their coming
--   waiters  hash: <token> "end mode lease length channel label" of a waiter, end being its place's
--            and length the channel's, which may have spaces; n the last number in the queue; x when
--            queue and hash end
--
-- All times are milliseconds of the server's clock, beginnings microseconds. Whoever has no lease
-- left is dropped by the next script that comes by.
--
-- The last argument of each script is a number of the question's own, and what it returns ends with
-- that number, or is it: an answer says whose it is.
--
-- A script reads of each key that it needs before it writes to any: one that is something else is
-- found in time.

local function readers_set(name, token, ends)
    call('ZADD', name.readers, ends, token)
    local last = call('ZRANGE', name.readers, -1, -1, 'WITHSCORES')
    call('PEXPIREAT', name.readers, last[2])
end

-- Drops readers who died, so many at most (-1: all).
local function readers_reap(name, most)
    local dead = call('ZRANGEBYSCORE', name.readers, '-inf', now, 'LIMIT', 0, most)
    for _, token in ipairs(dead) do
        call('ZREM', name.readers, token)
        redis.pcall('HDEL', name.meta, 'r' .. token) -- who gives back or breaks needs no hash
    end
end

-- Each who comes drops more of the dead than it can add: others may keep the set alive for long.
local READERS_SEEN = 2
local function become_reader(name, token, lease, label)
    local fence, fresh = fence_next(name.meta)
    local first = call('EXISTS', name.readers) == 0
    if first then -- the entries of those who died go, too
        call('HSET', name.meta, 'f', fence) -- may be refused; after a deletion nothing is
        call('DEL', name.meta)
    end
    call('HSET', name.meta, 'f', fence, 'r' .. token, fence .. ' ' .. moment .. ' ' .. label)
    meta_keep(name.meta, lease, fresh or first)
    readers_set(name, token, now + lease)
    if not first then -- only now: who comes again with its token is no longer one of the dead
        readers_reap(name, READERS_SEEN)
    end
    return fence
end

-- How many readers are left; the dead ones are gone afterwards.
local function readers_live(name)
    if call('ZCARD', name.readers) == 0 then
        return 0
    end
    readers_reap(name, -1)
    return call('ZCARD', name.readers)
end

local function reader_fence(name, token)
    local entry = call('HGET', name.meta, 'r' .. token)
    return entry and fence_read(string.match(entry, '^%d+'))
end

-- Drops those who died among the first WAITERS_SEEN. Returns how many wait.
local WAITERS_SEEN = 64
local function waiters_reap(name)
    local count = call('ZCARD', name.queue)
    if count == 0 then
        return 0
    end
    local tokens = call('ZRANGE', name.queue, 0, WAITERS_SEEN - 1)
    local entries = call('HMGET', name.waiters, unpack(tokens))
    for i, token in ipairs(tokens) do
        if not waiter_read(entries[i]) then
            waiter_drop(name, token)
            count = count - 1
        end
    end
    return count
end

-- It is looked at alone where the count need not be exact.
local function queue_head_died(name)
    local token = call('ZRANGE', name.queue, '0', '0')[1]
    return token and not waiter_read(call('HGET', name.waiters, token))
end

local function grant_reader(name, token, lease, channel, label)
    waiter_drop(name, token)
    local fence = become_reader(name, token, tonumber(lease), label)
    tell(name, channel, token, fence, lease)
end

-- The name has no exclusive holder: it goes to whoever waits, readers together. Nobody else may
-- take it while there is a live waiter.
local function pass_on(name)
    while true do
        local token, mode, lease, channel, label = queue_head(name)
        if mode == 's' then
            grant_reader(name, token, lease, channel, label)
        else
            if token and readers_live(name) == 0 then
                grant(name, token, lease, channel, label)
            end
            return
        end
    end
end
