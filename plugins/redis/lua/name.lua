-- SPDX-License-Identifier: MIT
-- What the server stores of a name, and how a name without an exclusive holder is passed on.
--
--   lock     string: the token of the exclusive holder, with the lease as its time to live. While this key
--            exists, readers does not
--   meta     hash: f the last fence; h "token since label" of the exclusive holder; r<token>
--            "fence since label" of a reader; l the limit, if the readers are permits of a semaphore or kept;
--            p<token> the permit
--   readers  sorted set: tokens of readers, by the end of their leases. Holders of a semaphore are readers, too,
--            and so is what is kept for nobody: k<token of the last holder>, with the limit 1 if it was a lock
--   queue    sorted set: tokens of waiters, in the order of their arrival: by the time of it in microseconds, or one
--            more than the last number, if that is greater. dlock 0.2 counted from 1
--   waiters  hash: <token> "ends mode lease length channel label" of a waiter: ends of its queue entry, and the
--            length of the channel, which may have spaces; the mode is x, s or a limit; n the last number in the queue; x when queue and
--            waiters expire
--
-- A label may have a NUL behind it, and then the data that the holder publishes: up to 1,024 bytes of any value.
--
-- Times are milliseconds of the server's clock; since is in microseconds. An entry whose time has run out is
-- removed by a later script for the name.
--
-- The last argument of each script is the number of the request. The answer ends with that number, or is that
-- number: so the client knows which request it answers.
--
-- A script reads each key that it needs before its first write: a foreign key is found before anything is changed.

local function readers_set(name, token, ends)
    call('ZADD', name.readers, ends, token)
    local last = call('ZRANGE', name.readers, -1, -1, 'WITHSCORES')
    call('PEXPIREAT', name.readers, last[2])
end

-- Some hundreds at a time: the arguments of a command stand on Lua's stack.
local READERS_PAGE = 500
local function readers_remove(name, tokens)
    for first = 1, #tokens, READERS_PAGE do
        local some, fields = {}, {}
        for i = first, math.min(first + READERS_PAGE - 1, #tokens) do
            table.insert(some, tokens[i])
            table.insert(fields, 'r' .. tokens[i])
            table.insert(fields, 'p' .. tokens[i])
        end
        call('ZREM', name.readers, unpack(some))
        redis.pcall('HDEL', name.meta, unpack(fields)) -- the key may be foreign: unlock and break do not need it
    end
end

-- Removes dead readers: at most this number of them, -1: all. `now` is cut to milliseconds, and so is an end that was
-- computed from it: a reader lives for the whole millisecond of its end, as a key of Redis does.
local function readers_reap(name, most)
    readers_remove(name, call('ZRANGEBYSCORE', name.readers, '-inf', '(' .. string.format('%.0f', now), 'LIMIT', 0, most))
end

-- The permits that are taken; the dead were removed before.
local function permits_read(name)
    local taken, tokens = {}, call('ZRANGE', name.readers, 0, -1)
    for first = 1, #tokens, READERS_PAGE do
        local fields = {}
        for i = first, math.min(first + READERS_PAGE - 1, #tokens) do
            table.insert(fields, 'p' .. tokens[i])
        end
        for _, number in ipairs(call('HMGET', name.meta, unpack(fields))) do
            taken[number or ''] = true
        end
    end
    return taken
end

-- The lowest permit that no holder has, and none is kept of. It is taken then: a script grants, and frees nothing after
-- that.
local function permit_take(name)
    local permit = name.permit or 0
    name.taken = name.taken or permits_read(name)
    while name.taken[tostring(permit)] do
        permit = permit + 1
    end
    name.permit = permit + 1
    return permit
end

-- A new reader adds one entry and removes dead entries up to this number: live readers may keep the set for long.
local READERS_REAPED = 2
local function become_reader(name, token, lease, label, limit, fence, fresh)
    local permit = limit and permit_take(name)
    local first = call('EXISTS', name.readers) == 0
    if first then -- the entries of dead readers go, too
        call('HSET', name.meta, 'f', fence) -- may be refused for memory; after a deletion no write is
        call('DEL', name.meta)
    end
    call('HSET', name.meta, 'f', fence, 'r' .. token, fence .. ' ' .. moment .. ' ' .. label)
    if limit then
        call('HSET', name.meta, 'l', limit, 'p' .. token, permit)
    end
    meta_keep(name.meta, lease, fresh or first)
    readers_set(name, token, now + lease)
    if not first then -- only now: this token may be among the dead readers, and lives again
        readers_reap(name, READERS_REAPED)
    end
    return permit
end

-- The number of live readers. Removes dead ones.
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

-- Removes dead waiters among the first WAITERS_CHECKED. Returns the number of waiters.
local WAITERS_CHECKED = 64
local function waiters_reap(name)
    local count = call('ZCARD', name.queue)
    if count == 0 then
        return 0
    end
    local tokens = call('ZRANGE', name.queue, 0, WAITERS_CHECKED - 1)
    local entries = call('HMGET', name.waiters, unpack(tokens))
    for i, token in ipairs(tokens) do
        if not waiter_read(entries[i]) then
            waiter_drop(name, token)
            count = count - 1
        end
    end
    return count
end

-- Where the count need not be exact, the first waiter alone is checked.
local function queue_head_died(name)
    local token = call('ZRANGE', name.queue, '0', '0')[1]
    return token and not waiter_read(call('HGET', name.waiters, token))
end

-- Whether the readers leave room for a waiter of this mode, s or a limit.
local function has_room(name, mode)
    local limit = tonumber(mode)
    if limit then
        return readers_live(name) < limit
    end
    return not call('HGET', name.meta, 'l') or readers_live(name) == 0
end

local function grant_reader(name, token, mode, lease, channel, label)
    local fence, fresh, waits = fence_next(name.meta)
    if waits then
        return false
    end
    waiter_drop(name, token)
    local permit = become_reader(name, token, tonumber(lease), label, tonumber(mode), fence, fresh)
    message_publish(name, channel, token, fence, permit and lease .. ' ' .. permit or lease)
    return true
end

-- Grants a name without an exclusive holder to the first waiter, to the first readers together, or to as many
-- waiters as there are permits. No other
-- client may take it while there is a live waiter.
--
-- The server serves nobody else while a script runs. So the rest of many readers, or permits, is for another script:
-- the first waiter of the rest is told to ask, and its REFRESH passes on to those behind it.
local GRANTS_MOST = 200
local function pass_on(name)
    for _ = 1, GRANTS_MOST do
        local token, mode, lease, channel, label = queue_head(name)
        if mode and mode ~= 'x' then
            if not has_room(name, mode) or not grant_reader(name, token, mode, lease, channel, label) then
                return
            end
        else
            if token and readers_live(name) == 0 then
                grant(name, token, lease, channel, label)
            end
            return
        end
    end
    local token, _, _, channel = queue_head(name)
    if token then
        message_send(name, channel, token .. ' ?')
    end
end
