-- SPDX-License-Identifier: MIT
-- What one node stores of a name, and the functions of the scripts.
--
--   lock     string: "token round number since label" of the exclusive holder, with the lease as its time to
--            live; or ~ while there are readers, or the name is reserved: a plain SET NX then gets nothing
--   counter  string: the greatest number of a lease of the name, for a day
--   info     hash: r<token> "round since label" of a reader
--   readers  sorted set: tokens of readers, by the end of their leases
--   queue    sorted set: tokens of waiters, by their tickets, which are the same on all nodes
--   entries  hash: <token> "ends mode channel" of a waiter; - "token ends mode" of the reservation; x a ticket
--            before which no writer is queued
--
-- A script gets the key of the lock, and makes the other keys by adding :m :r :q :w :f, as a key that is given
-- costs the node more. The node does not belong to a cluster.
--
-- A token belongs to an attempt, a round to one request of the attempt: a release for an earlier round that
-- arrives late does not undo a later round. All times are milliseconds of the server's clock. The number of a
-- lease is its fencing token (fence.h), which is a time in microseconds; 0: it has none.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_us = time[1] * 1000000 + time[2]

local NUMBERS = 32 -- that belong to a lease
local NUMBER_MOST = 9007199254740992 -- a script counts exactly up to here, and no further
local COUNTER_TTL = 86400000 -- ms by which a number is kept: by less than this a clock may be set back
local RESERVED = 200 -- ms for which a free name is reserved for the first waiter

-- The script remembers what it has read or written of a name: value and reservation, false if there is none;
-- absent; live, the number of readers; and live queue entries by token.
local function name_at(lock)
    return { lock = lock, info = lock .. ':m', readers = lock .. ':r', queue = lock .. ':q',
             entries = lock .. ':w', counter = lock .. ':f', messages = {}, entry = {} }
end

local function text(number)
    return string.format('%.0f', number)
end

-- The text as the server reports it: an error of the server begins with a word in capitals.
local function error_text(failure)
    local reported = type(failure) == 'table' and failure.err or tostring(failure)
    return string.match(reported, '%u%u+ .*') or 'ERR ' .. reported
end

local function is_foreign(failure)
    return string.find(error_text(failure), 'WRONGTYPE', 1, true) ~= nil
end

-- Token and round of the lock's value; another program's value is its own token.
local function owner_of(value)
    local token, round = string.match(value, '^(%x+) (%d+) ')
    return token or value, tonumber(round or 0)
end

-- 0: another program's value has none, or one that no script counts.
local function number_of(value)
    local number = tonumber(string.match(value, '^%x+ %d+ (%d+) ') or 0)
    return number < NUMBER_MOST and number or 0
end

local function lock_known(name, value)
    name.absent = not value
    name.value = value ~= '~' and value
end

-- The value of the exclusive holder, or nil.
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

-- A plain SET NX gets nothing for this time.
local function mark(name, lasts)
    if name.absent or redis.call('PTTL', name.lock) < lasts then
        lock_put(name, '~', lasts)
    end
end

-- The greatest number of a lease here, as far as it is known. A value that is no number, or leaves no room for the
-- next one, is a foreign key: ZCARD ends the script with WRONGTYPE.
local function number_last(name)
    local kept = redis.call('GET', name.counter) or '0'
    if not string.match(kept, '^%d+$') or kept + NUMBERS >= NUMBER_MOST then
        redis.call('ZCARD', name.counter)
    end
    return tonumber(kept)
end

-- The number of a new lease, as near to the wanted one as it may be: above the numbers of all leases before, and
-- not below the clock, which has passed them if the node forgot them.
local function number_next(name, wanted, ttl)
    local least = math.max(number_last(name) + NUMBERS, now_us)
    return wanted > least and wanted < now_us + ttl * 500 and wanted or least
end

-- The number is kept before the lease begins, however the lease ends.
local function lock_set(name, token, round, number, since, lease, label)
    if number > 0 then
        redis.call('SET', name.counter, text(math.max(number, number_last(name))), 'PX', text(COUNTER_TTL))
    end
    lock_put(name, token .. ' ' .. round .. ' ' .. text(number) .. ' ' .. since .. ' ' .. label, lease)
end

local function readers_set(name, token, round, ends, label)
    local known = redis.call('HGET', name.info, 'r' .. token)
    if known then
        redis.call('ZREM', name.readers, '-') -- a first write that needs no memory: then no later one is refused
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
    redis.pcall('HDEL', name.info, 'r' .. token) -- the key may be foreign
    return dropped
end

local function reader_round(name, token)
    local known = redis.call('HGET', name.info, 'r' .. token)
    return tonumber(known and string.match(known, '^%d+') or 0)
end

-- The number of live readers. Removes dead ones.
local function readers_live(name)
    if name.live then
        return name.live
    end
    local live = redis.call('ZCARD', name.readers)
    local dead = live > 0 and redis.call('ZRANGEBYSCORE', name.readers, '-inf', '(' .. text(now)) or {}
    for _, token in ipairs(dead) do
        live = live - reader_drop(name, token)
    end
    name.live = live
    return live
end

-- ---- waiters ----

local function dequeue(name, token)
    name.entry[token] = false
    redis.call('HDEL', name.entries, token)
    return redis.call('ZREM', name.queue, token)
end

-- Mode and channel of a live queue entry, or nil.
local function entry_of(name, token)
    local entry = name.entry[token]
    if entry == nil then
        local stored = redis.call('HGET', name.entries, token)
        local ends, mode, channel = string.match(stored or '', '^(%d+) (%S+) (.*)$')
        entry = ends and tonumber(ends) > now and { mode, channel } or false
        name.entry[token] = entry
    end
    if entry then
        return entry[1], entry[2]
    end
end

-- Token and mode of the first waiter, or nil. Removes dead ones before it.
local function queue_head(name)
    while true do
        local token = redis.call('ZRANGE', name.queue, 0, 0)[1]
        if not token then
            return nil
        end
        local mode = entry_of(name, token)
        if mode then
            return token, mode
        end
        dequeue(name, token)
    end
end

-- Whether a live writer is queued before this ticket (false: anywhere). Where the next reader has to begin to look is
-- kept: else each one would look at all readers before it.
local WAITERS_PAGE = 100
local function writer_before(name, ticket)
    local first = redis.call('HGET', name.entries, 'x') or '-inf'
    local offset, seen, found, page = 0, nil, false, nil
    repeat
        page = redis.call('ZRANGEBYSCORE', name.queue, first, ticket and '(' .. ticket or '+inf', 'WITHSCORES',
                          'LIMIT', offset, WAITERS_PAGE)
        for i = 1, #page, 2 do
            local mode = entry_of(name, page[i])
            seen = mode and page[i + 1] or seen
            if mode == 'x' then
                found = true
                break
            end
        end
        offset = offset + WAITERS_PAGE
    until found or #page < 2 * WAITERS_PAGE
    if seen and seen ~= first then
        redis.pcall('HSET', name.entries, 'x', seen) -- it saves time: no memory is no failure
    end
    return found
end

-- The reservation: token, mode and time left (0 and less: it has run out), or nil. A reservation ends with the
-- queue entry.
local function reservation_of(name)
    if name.reservation == nil then
        name.reservation = redis.call('HGET', name.entries, '-')
    end
    local token, ends, mode = string.match(name.reservation or '', '^(%S+) (%d+) (%S+)$')
    if token and entry_of(name, token) then
        return token, mode, tonumber(ends) - now
    end
end

local function reservation_set(name, reserved)
    if reserved then
        redis.call('HSET', name.entries, '-', reserved)
    else
        redis.call('HDEL', name.entries, '-')
    end
    name.reservation = reserved
end

-- The readers behind the first one were told of a reservation that has not run out.
local function readers_reserved(name)
    local ends, mode = string.match(name.reservation or '', '^%S+ (%d+) (%S+)$')
    return mode == 's' and tonumber(ends) > now
end

local function message_add(name, token)
    local _, channel = entry_of(name, token)
    if channel then
        table.insert(name.messages, { channel, token })
    end
end

-- Reserves a name that is free, or has readers, for the first waiter that can have it, or for the first
-- readers together, and sends them a message. A reservation grants nothing, as a grant needs a majority. The
-- first waiter is the same on all nodes, whatever was reserved before. A waiter whose reservation has run
-- out, unless it is `asks`, loses its queue entry, and may enqueue again with the same ticket.
local function pass_on(name, asks)
    if lock_value(name) then
        return
    end
    local reserved, _, left = reservation_of(name)
    if reserved and left <= 0 and reserved ~= asks then
        dequeue(name, reserved)
    end
    local token, mode = queue_head(name)
    if token and token == reserved and left > 0 then
        return
    end
    local readers = readers_live(name)
    if not token or (mode == 'x' and readers > 0) then
        if name.reservation then
            reservation_set(name, false)
        end
        if readers == 0 and not name.absent then
            lock_drop(name)
        end
        return
    end
    local reserved = readers_reserved(name)
    reservation_set(name, token .. ' ' .. text(now + RESERVED) .. ' ' .. mode)
    mark(name, RESERVED)
    message_add(name, token)
    if mode == 's' and not reserved then
        for _, other in ipairs(redis.call('ZRANGE', name.queue, 1, -1)) do
            if entry_of(name, other) == 'x' then
                return
            end
            message_add(name, other)
        end
    end
end

-- The obstacle between this token and the name: the time that it lasts (-1: not known) and the owner ('': not
-- one token); or nil. A reader does not pass a writer that came earlier. queued: reservations and waiters count.
local function blocked(name, token, mode, queued)
    local value = lock_value(name)
    if value then
        return redis.call('PTTL', name.lock), (owner_of(value))
    end
    if mode == 'x' and readers_live(name) > 0 then
        local last = redis.call('ZRANGE', name.readers, -1, -1, 'WITHSCORES')
        return tonumber(last[2]) - now, ''
    end
    if not queued then
        return nil
    end
    local head, head_mode, left = reservation_of(name)
    if head and left > 0 and head ~= token and not (mode == 's' and head_mode == 's') then
        return left, ''
    end
    if mode == 's' and writer_before(name, redis.call('ZSCORE', name.queue, token)) then
        return -1, ''
    end
    return nil
end

-- The last step, and never an error: waiters ask by themselves, too.
local function messages_publish(name)
    for _, message in ipairs(name.messages) do
        redis.pcall('PUBLISH', message[1], message[2])
    end
end
