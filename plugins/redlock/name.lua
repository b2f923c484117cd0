-- SPDX-License-Identifier: MIT
-- What one node knows of a name. Each script is put together from several files when dlock is built;
-- see CMakeLists.txt.
--
--   lock     string: "token round since label" of the exclusive holder, with the lease as its time to live;
--            or ~ while there are readers, or a turn is kept: who comes with a plain SET NX does not get in
--   info     hash: r<token> "round since label" of a reader
--   readers  sorted set: tokens of readers, by the end of their leases
--   queue    sorted set: tokens of those who wait, by their tickets, which are the same on all nodes
--   places   hash: <token> "ends mode channel" of those; - "token ends mode" whose turn it is
--
-- A script is given the key of the lock; the others are it, and :m :r :q :w behind it. A node is not one of a
-- cluster, and keys that are given cost it more than those that are made.
--
-- A token belongs to an attempt, a round to one request in it: a release that was meant for an earlier
-- round and comes late does not undo a later one. All times are milliseconds of the server's clock.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local TURN = 200 -- ms that a free name is kept for the first of those who wait

-- What was read or written of a name is kept for the rest of the script: value and turn, false if there is
-- none, absent, the number of live readers, and live places by their tokens.
local function name_at(lock)
    return { lock = lock, info = lock .. ':m', readers = lock .. ':r', queue = lock .. ':q',
             places = lock .. ':w', said = {}, place = {} }
end

local function text(number)
    return string.format('%.0f', number)
end

-- As the server words it: the server's own errors begin with a word in capitals.
local function error_text(failure)
    local said = type(failure) == 'table' and failure.err or tostring(failure)
    return string.match(said, '%u%u+ .*') or 'ERR ' .. said
end

local function is_foreign(failure)
    return string.find(error_text(failure), 'WRONGTYPE', 1, true) ~= nil
end

-- Token and round of the lock's value; another program's value is its own token.
local function owner_of(value)
    local token, round = string.match(value, '^(%x+) (%d+) ')
    return token or value, tonumber(round or 0)
end

local function lock_known(name, value)
    name.absent = not value
    name.value = value ~= '~' and value
end

-- The exclusive holder's, or nil.
local function lock_value(name)
    if name.value == nil then
        lock_known(name, redis.call('GET', name.lock))
    end
    return name.value or nil
end

local function lock_put(name, value, lasts)
    redis.call('SET', name.lock, value, 'PX', text(lasts))
    lock_known(name, value)
end

-- Returns 1, or 0 if nothing was there.
local function lock_drop(name)
    lock_known(name, false)
    return redis.call('DEL', name.lock)
end

-- Nobody gets in without asking for so long.
local function mark(name, lasts)
    if name.absent or redis.call('PTTL', name.lock) < lasts then
        lock_put(name, '~', lasts)
    end
end

local function lock_set(name, token, round, lease, label)
    lock_put(name, token .. ' ' .. round .. ' ' .. text(now) .. ' ' .. label, lease)
end

local function readers_set(name, token, round, ends, label)
    local known = redis.call('HGET', name.info, 'r' .. token)
    if known then
        redis.call('ZREM', name.readers, '-') -- a first write that needs no memory: then none of the others is refused
    end
    local rest = known and string.match(known, '^%d+ (.*)$') or text(now) .. ' ' .. label
    redis.call('HSET', name.info, 'r' .. token, round .. ' ' .. rest)
    redis.call('ZADD', name.readers, text(ends), token)
    name.live = nil
    local last = redis.call('ZRANGE', name.readers, -1, -1, 'WITHSCORES')
    for _, key in ipairs({ name.readers, name.info }) do
        redis.call('PEXPIREAT', key, text(last[2]))
    end
    mark(name, last[2] - now)
end

local function reader_drop(name, token)
    local dropped = redis.call('ZREM', name.readers, token)
    name.live = nil
    redis.pcall('HDEL', name.info, 'r' .. token) -- it may be something else, and nobody's
    return dropped
end

local function reader_round(name, token)
    local known = redis.call('HGET', name.info, 'r' .. token)
    return tonumber(known and string.match(known, '^%d+') or 0)
end

-- How many readers are left; the dead ones are gone afterwards.
local function readers_live(name)
    if name.live then
        return name.live
    end
    local live = redis.call('ZCARD', name.readers)
    local dead = live > 0 and redis.call('ZRANGEBYSCORE', name.readers, '-inf', text(now)) or {}
    for _, token in ipairs(dead) do
        live = live - reader_drop(name, token)
    end
    name.live = live
    return live
end

-- ---- those who wait ----

local function place_drop(name, token)
    name.place[token] = false
    redis.call('HDEL', name.places, token)
    return redis.call('ZREM', name.queue, token)
end

-- Mode and channel of a live place, or nil.
local function place_of(name, token)
    local place = name.place[token]
    if place == nil then
        local entry = redis.call('HGET', name.places, token)
        local ends, mode, channel = string.match(entry or '', '^(%d+) (%S+) (.*)$')
        place = ends and tonumber(ends) > now and { mode, channel } or false
        name.place[token] = place
    end
    if place then
        return place[1], place[2]
    end
end

-- Token and mode of the first who waits, or nil; the dead ones before are gone afterwards.
local function queue_head(name)
    while true do
        local token = redis.call('ZRANGE', name.queue, 0, 0)[1]
        if not token then
            return nil
        end
        local mode = place_of(name, token)
        if mode then
            return token, mode
        end
        place_drop(name, token)
    end
end

-- Whose turn it is: token, mode and what is left of it (0 and less: he let it go by), or nil. A turn ends
-- with the place.
local function turn_of(name)
    if name.turn == nil then
        name.turn = redis.call('HGET', name.places, '-')
    end
    local token, ends, mode = string.match(name.turn or '', '^(%S+) (%d+) (%S+)$')
    if token and place_of(name, token) then
        return token, mode, tonumber(ends) - now
    end
end

local function turn_set(name, turn)
    if turn then
        redis.call('HSET', name.places, '-', turn)
    else
        redis.call('HDEL', name.places, '-')
    end
    name.turn = turn
end

local function tell_later(name, token)
    local _, channel = place_of(name, token)
    if channel then
        table.insert(name.said, { channel, token })
    end
end

-- The name is free, or read: it is the turn of the first who waits and can have it, readers together.
-- It is kept for them for a moment, and they are told. Nothing is granted: that takes a majority, and
-- so the first is the same on all nodes, whoever had the turn on one of them until now. Who lets a
-- turn go by, and is not the one that asks, has lost the place, and may come again with the ticket.
local function pass_on(name, asks)
    if lock_value(name) then
        return
    end
    local turn, _, left = turn_of(name)
    if turn and left <= 0 and turn ~= asks then
        place_drop(name, turn)
    end
    local token, mode = queue_head(name)
    if token and token == turn and left > 0 then
        return
    end
    local readers = readers_live(name)
    if not token or (mode == 'x' and readers > 0) then
        if name.turn then
            turn_set(name, false)
        end
        if readers == 0 and not name.absent then
            lock_drop(name)
        end
        return
    end
    turn_set(name, token .. ' ' .. text(now + TURN) .. ' ' .. mode)
    mark(name, TURN)
    tell_later(name, token)
    if mode == 's' then
        for _, other in ipairs(redis.call('ZRANGE', name.queue, 1, -1)) do
            if place_of(name, other) == 'x' then
                return
            end
            tell_later(name, other)
        end
    end
end

-- What keeps this token from the name: for how long (-1: not known) and whose lock it is ('': not one
-- token's); or nil. A reader does not pass a writer who came before.
local function blocked(name, token, mode, turns)
    local value = lock_value(name)
    if value then
        return redis.call('PTTL', name.lock), (owner_of(value))
    end
    if mode == 'x' and readers_live(name) > 0 then
        local last = redis.call('ZRANGE', name.readers, -1, -1, 'WITHSCORES')
        return tonumber(last[2]) - now, ''
    end
    if not turns then
        return nil
    end
    local head, head_mode, left = turn_of(name)
    if head and left > 0 and head ~= token and not (mode == 's' and head_mode == 's') then
        return left, ''
    end
    if mode == 's' then
        for _, other in ipairs(redis.call('ZRANGE', name.queue, 0, -1)) do
            if other == token then
                return nil
            end
            if place_of(name, other) == 'x' then
                return -1, ''
            end
        end
    end
    return nil
end

-- Last, and never an error: those who wait look by themselves, too.
local function tell(name)
    for _, said in ipairs(name.said) do
        redis.pcall('PUBLISH', said[1], said[2])
    end
end
