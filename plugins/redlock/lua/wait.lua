-- SPDX-License-Identifier: MIT
-- Enqueues a waiter of a name, or refreshes its queue entry.
--
-- KEYS   lock
-- ARGV   token, ticket, mode (x or s), ms that the entry lasts, channel
-- Returns whether the name is free for the token here; the time that the holder has left (-1: not known)
-- @include name.lua

local token, ticket, mode, lasts, channel = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local name = name_at(KEYS[1])

redis.call('ZREMRANGEBYSCORE', name.queue, '-inf', '-1') -- a first write that needs no memory
redis.call('ZADD', name.queue, 'NX', ticket, token)
redis.call('HSET', name.entries, token, text(now + lasts) .. ' ' .. mode .. ' ' .. channel)
local first = mode == 'x' and redis.call('HGET', name.entries, 'x')
if first and tonumber(first) > tonumber(ticket) then
    redis.call('HSET', name.entries, 'x', ticket)
end
local keep = math.max(redis.call('PTTL', name.queue), lasts + 1000)
redis.call('PEXPIRE', name.queue, keep)
redis.call('PEXPIRE', name.entries, keep)
pass_on(name, token)
messages_publish(name)
local left = blocked(name, token, mode, true)
return { left and 0 or 1, left and math.max(left, -1) or -1 }
