-- SPDX-License-Identifier: MIT
-- The first who waits for a name, and how it becomes its exclusive holder; name.lua says what is kept
-- of it. What is here is all that most hand-offs need.

local now = math.floor(tonumber(moment) / 1000)

-- Of each name the scripts are given two keys, and make the others of the second: each one that is
-- given takes the server as long as a sixth of a command.
local function name_at(first)
    local others = string.sub(KEYS[first + 1], 1, -2)
    return { lock = KEYS[first], meta = KEYS[first + 1], readers = others .. 'r',
             queue = others .. 'q', waiters = others .. 'w', untold = '' }
end

-- Mode, lease, channel and label of a waiter; nil if it is not alive.
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

-- Token, mode, lease, channel and label of the first who is alive; nil: nobody waits.
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
        waiter_drop(name, token)
    end
end

-- Never an error: who is not told finds out by asking, too. untold is why, or ''.
local function tell(name, channel, token, fence, lease)
    if channel ~= '-' then
        local result = redis.pcall('PUBLISH', channel, token .. ' ' .. fence .. ' ' .. lease)
        if type(result) == 'table' and result.err then
            name.untold = result.err
        end
    end
end

-- Makes the first waiter the holder, for no longer than its place in the queue was to last. It is
-- dropped first, so that this works in a server without memory to spare.
local function grant(name, token, lease, channel, label)
    waiter_drop(name, token)
    local fence = become_owner(name.lock, name.meta, token, lease, label, true)
    tell(name, channel, token, fence, lease)
end
