-- SPDX-License-Identifier: MIT
-- The live holders of names on one node; changes nothing.
--
-- KEYS   lock of each
-- ARGV   the most holders of a name in the answer, whether locks have fencing tokens (1 or 0)
-- Returns for each name: the number of waiters, and for each holder: mode (x or s), token, time left (-1: no
-- end), held for (-1: not known), label, number; or WRONGTYPE, if a key of the name is foreign
-- @include name.lua

local OWNER_MAX = 255 -- bytes: another program may have written any text

local function inspect(name)
    local result = { redis.call('ZCARD', name.queue) }

    if ARGV[2] == '1' then
        number_last(name)
    end

    local function holder(mode, token, left, since, label, number)
        local held = since and math.max(now - tonumber(since), 0) or -1
        for _, value in ipairs({ mode, token, left, held, label or '', number }) do
            table.insert(result, value)
        end
    end

    local value = lock_value(name)
    if value then
        local token, since, label = string.match(value, '^(%x+) %d+ %d+ (%d+) (.*)$')
        holder('x', string.sub(token or value, 1, OWNER_MAX), redis.call('PTTL', name.lock), since, label,
               number_of(value))
        return result
    end
    local live = redis.call('ZRANGEBYSCORE', name.readers, text(now), '+inf', 'WITHSCORES',
                            'LIMIT', 0, ARGV[1])
    for i = 1, #live, 2 do
        local entry = redis.call('HGET', name.info, 'r' .. live[i]) or ''
        local since, label = string.match(entry, '^%d+ (%d+) (.*)$')
        holder('s', live[i], tonumber(live[i + 1]) - now, since, label, 0)
    end
    return result
end

local result = {}
for i, lock in ipairs(KEYS) do
    local done, one = pcall(inspect, name_at(lock))
    if not done and not is_foreign(one) then
        error(one)
    end
    result[i] = done and one or { err = 'WRONGTYPE' }
end
return result
