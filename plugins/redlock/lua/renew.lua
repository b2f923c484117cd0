-- SPDX-License-Identifier: MIT
-- Extends leases on one node, one independent of another.
--
-- KEYS   lock of each
-- ARGV   token, ttl, mode of each; an exclusive holder with the mode s becomes a reader
-- Returns for each: the lease, 0 if the token does not hold the name here, or an error. A foreign key
-- where the lease was holds nothing.
-- @include name.lua

local function stay_owner(name, ttl)
    local left = redis.call('PTTL', name.lock)
    if left < ttl then
        redis.call('PEXPIRE', name.lock, ttl)
    end
    return math.max(left, ttl)
end

-- A foreign key is found before the first write: a failed downgrade leaves the lease. Of the writes the
-- deletion comes first: Redis does not refuse a script for memory once its first write has freed some.
local function become_reader(name, token, value, ttl)
    local lease = math.max(redis.call('PTTL', name.lock), ttl)
    local round, since, label = string.match(value, '^%x+ (%d+) %d+ (%d+) (.*)$')
    redis.call('HGET', name.info, 'r' .. token)
    redis.call('ZCARD', name.readers)
    lock_drop(name)
    redis.call('HSET', name.info, 'r' .. token, (round or '0') .. ' ' .. (since or text(now)) .. ' ' .. (label or ''))
    readers_set(name, token, round or '0', now + lease, '')
    pcall(dequeue, name, token) -- the lease is a reader's even if the queue's key is foreign
    pcall(pass_on, name)
    return lease
end

local function renew(name, token, ttl, mode)
    local value = redis.pcall('GET', name.lock)
    if type(value) == 'table' then
        return is_foreign(value) and 0 or value
    end
    if value == '~' then
        value = false
    end
    if value and owner_of(value) == token then
        return mode == 's' and become_reader(name, token, value, ttl) or stay_owner(name, ttl)
    end
    local ends = value and 0 or redis.pcall('ZSCORE', name.readers, token)
    if type(ends) == 'table' then
        return is_foreign(ends) and 0 or ends
    end
    ends = tonumber(ends or 0)
    if ends < now then
        return 0
    end
    ends = math.max(ends, now + ttl)
    readers_set(name, token, reader_round(name, token), ends, '')
    return ends - now
end

-- An error in one lease is no answer for the next one.
local result = {}
for i, lock in ipairs(KEYS) do
    local name = name_at(lock)
    local done, one = pcall(renew, name, ARGV[i * 3 - 2], tonumber(ARGV[i * 3 - 1]), ARGV[i * 3])
    result[i] = done and one or { err = error_text(one) }
    messages_publish(name)
end
return result
