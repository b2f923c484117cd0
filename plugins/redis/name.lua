-- SPDX-License-Identifier: MIT
-- What the scripts know of a name. Each is put together from several files when dlock is built; see
-- CMakeLists.txt.
--
--   lock     string: the token of the exclusive holder, with the lease as its time to live
--   meta     hash: f the last fence; h "token beginning label" of the exclusive holder; r<token>
--            "fence beginning label" of a reader; e when the hash ends
--   readers  sorted set: tokens of readers, by the end of their leases
--   queue    sorted set: tokens of waiters, in the order of their coming
--   waiters  hash: n the last number in the queue; e<token> when a place ends; w<token>
--            "mode lease length channel label", the length being the channel's: it may have spaces
--
-- All times are milliseconds of the server's clock, beginnings microseconds. Whoever has no lease
-- left is dropped by the next script that comes by.
--
-- The last argument of each script is a number of the question's own, and the last element of what
-- it returns is that number: an answer says whose it is.
--
-- A script reads of each key before it writes to any: one that is something else is found in time.

local function name_at(first)
    return { lock = KEYS[first], meta = KEYS[first + 1], readers = KEYS[first + 2],
             queue = KEYS[first + 3], waiters = KEYS[first + 4], said = {} }
end

local function readers_set(name, token, ends)
    redis.call('ZADD', name.readers, ends, token)
    local last = redis.call('ZRANGE', name.readers, -1, -1, 'WITHSCORES')
    redis.call('PEXPIREAT', name.readers, last[2])
end

local function become_reader(name, token, lease, label)
    local fence, text, ends = fence_next(name.meta)
    if redis.call('EXISTS', name.readers) == 0 then -- the entries of those who died go, too
        redis.call('HSET', name.meta, 'f', text) -- may be refused; after a deletion nothing is
        redis.call('DEL', name.meta)
        ends = nil
    end
    redis.call('HSET', name.meta, 'f', text, 'r' .. token, text .. ' ' .. moment .. ' ' .. label)
    meta_keep(name.meta, ends, lease)
    readers_set(name, token, now + lease)
    return fence
end

-- How many readers are left; the dead ones are gone afterwards.
local function readers_live(name)
    if redis.call('ZCARD', name.readers) == 0 then
        return 0
    end
    local dead = redis.call('ZRANGEBYSCORE', name.readers, '-inf', now)
    for _, token in ipairs(dead) do
        redis.call('ZREM', name.readers, token)
        redis.call('HDEL', name.meta, 'r' .. token)
    end
    return redis.call('ZCARD', name.readers)
end

local function reader_fence(name, token)
    local entry = redis.call('HGET', name.meta, 'r' .. token)
    return entry and tonumber(string.match(entry, '^%d+')) or 0
end

local function waiter_drop(name, token)
    redis.call('ZREM', name.queue, token)
    redis.call('HDEL', name.waiters, 'e' .. token, 'w' .. token)
end

local function waiter_lives(name, token)
    local ends = redis.call('HGET', name.waiters, 'e' .. token)
    return ends and tonumber(ends) > now
end

-- Drops those who died among the first WAITERS_SEEN, so that only the living are counted.
local WAITERS_SEEN = 64
local function waiters_reap(name)
    local tokens = redis.call('ZRANGE', name.queue, 0, WAITERS_SEEN - 1)
    local fields = {}
    for i, token in ipairs(tokens) do
        fields[i] = 'e' .. token
    end
    local ends = fields[1] and redis.call('HMGET', name.waiters, unpack(fields)) or {}
    for i, token in ipairs(tokens) do
        if (tonumber(ends[i] or 0) or 0) <= now then
            waiter_drop(name, token)
        end
    end
end

-- The first live waiter and what it waits for, or nil.
local function queue_head(name)
    while true do
        local token = redis.call('ZRANGE', name.queue, 0, 0)[1]
        if not token then
            return nil
        end
        local known = redis.call('HMGET', name.waiters, 'e' .. token, 'w' .. token)
        if known[1] and tonumber(known[1]) > now then
            return token, known[2] or 'x 1000 1 - '
        end
        waiter_drop(name, token)
    end
end

-- Makes the waiter a holder, for no longer than its place in the queue was to last.
local function grant(name, token, entry)
    local mode, lease, length, rest = string.match(entry, '^(%S+) (%d+) (%d+) (.*)$')
    local channel, label = string.sub(rest, 1, length), string.sub(rest, length + 2)
    local become, fence = mode == 's' and become_reader or become_owner, nil
    waiter_drop(name, token) -- first, so that it works in a server without memory to spare
    fence = become(name, token, tonumber(lease), label)
    table.insert(name.said, { channel, string.format('%s %.0f %s', token, fence, lease) })
end

-- The name has no exclusive holder: it goes to whoever waits, readers together. Nobody else may
-- take it while there is a live waiter.
local function pass_on(name)
    local reader
    repeat
        local token, entry = queue_head(name)
        reader = token and string.sub(entry, 1, 1) == 's'
        if not token or not reader and readers_live(name) > 0 then
            return
        end
        grant(name, token, entry)
    until not reader
end

-- Tells those who were granted. Last, and never an error: they find out by asking, too. Returns
-- why it could not be told, or ''.
local function tell(name)
    local failure = ''
    for _, said in ipairs(name.said) do
        if said[1] ~= '-' then
            local result = redis.pcall('PUBLISH', said[1], said[2])
            if type(result) == 'table' and result.err then
                failure = result.err
            end
        end
    end
    return failure
end
