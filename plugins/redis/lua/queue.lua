-- SPDX-License-Identifier: MIT
-- The first waiter of a name, and how it becomes the exclusive holder; name.lua says what is stored. Most
-- releases that pass the name on need no more than this file.

local now = math.floor(tonumber(moment) / 1000)

-- A script gets two keys of each name, and makes the other keys from the second one: a key that is given costs
-- the server a sixth of a command. A cluster is told of the other keys, too: they stand behind all others.
local function name_at(first)
    local others = string.sub(KEYS[first + 1], 1, -2)
    return { lock = KEYS[first], meta = KEYS[first + 1], readers = others .. 'r',
             queue = others .. 'q', waiters = others .. 'w', publish_error = '' }
end

-- Mode, lease, channel and label of a waiter; nil: it is dead.
local function waiter_read(entry)
    local ends, mode, lease, length, rest =
        string.match(entry or '', '^(%d+) (%S+) (%d+) (%d+) (.*)$')
    if ends and tonumber(ends) > now then
        return mode, lease, string.sub(rest, 1, length), string.sub(rest, length + 2)
    end
end

local function waiter_drop(name, token)
    call('ZREM', name.queue, token)
    call('HDEL', name.waiters, token)
end

-- Removes the dead waiters at the head of the queue: those of the first page, to the first live one.
local WAITERS_PAGE = 100
local function queue_head_reap(name)
    local tokens, dead = call('ZRANGE', name.queue, 0, WAITERS_PAGE - 1), {}
    for i, entry in ipairs(call('HMGET', name.waiters, unpack(tokens))) do
        if waiter_read(entry) then
            break
        end
        dead[i] = tokens[i]
    end
    call('ZREM', name.queue, unpack(dead))
    call('HDEL', name.waiters, unpack(dead))
end

-- Token, mode, lease, channel and label of the first live waiter; nil: there is none. Removes dead waiters
-- before it.
local function queue_head(name)
    while true do
        local token = call('ZRANGE', name.queue, '0', '0')[1]
        if not token then
            return nil
        end
        local mode, lease, channel, label = waiter_read(call('HGET', name.waiters, token))
        if mode then
            return token, mode, lease, channel, label
        end
        queue_head_reap(name)
    end
end

-- A message for a waiter. Never an error: a waiter asks by itself, too. publish_error: the failure, or ''.
local function message_send(name, channel, text)
    if channel ~= '-' then
        local result = redis.pcall('PUBLISH', channel, text)
        if type(result) == 'table' and result.err then
            name.publish_error = result.err
        end
    end
end

-- Tells a waiter of its grant: "token fence lease", then the permit of a semaphore, then with the failover guard
-- "@" and the replication id of this promotion [FO-9].
local function message_publish(name, channel, token, fence, lease)
    message_send(name, channel, token .. ' ' .. fence .. ' ' .. lease .. (ARGV.promotion or ''))
end

-- Makes the first waiter the holder, unless its fence has to wait. Its lease is not longer than its queue entry was to last. The entry is
-- removed first: after that no write is refused for memory.
local function grant(name, token, lease, channel, label)
    local fence, fresh, waits = fence_next(name.meta)
    if waits then
        return false
    end
    waiter_drop(name, token)
    become_owner(name.lock, name.meta, token, lease, label, fence, fresh, true)
    message_publish(name, channel, token, fence, lease)
    return true
end
