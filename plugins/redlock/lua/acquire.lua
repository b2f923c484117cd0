-- SPDX-License-Identifier: MIT
-- One node's vote on a name that a plain SET NX did not get.
--
-- KEYS   lock
-- ARGV   token, round, mode (x or s), ttl, what (TRY, or HEAL: the token holds a majority), label, the number that
--        the lease is to have (-: none)
-- Returns 1, lease, number, the clock in microseconds when the lease began
--     or  0, the time that the holder has left (-1: not known), the owner ('': not one token), the clock

-- The name has no holder and no waiter.
local is_free = ARGV[3] == 'x' and ARGV[5] == 'TRY' and
    redis.call('EXISTS', KEYS[1], KEYS[1] .. ':r', KEYS[1] .. ':q') == 0
local kept = is_free and ARGV[7] ~= '-' and redis.call('GET', KEYS[1] .. ':f') or '0'
if is_free and string.match(kept, '^%d+$') and kept + 32 < 9007199254740992 then -- as number_last
    local time, number, clock = redis.call('TIME'), 0, 0
    if ARGV[7] ~= '-' then -- as number_next and lock_set
        clock = time[1] * 1000000 + time[2]
        local least = math.max(kept + 32, clock)
        number = tonumber(ARGV[7])
        if number < least or number >= clock + ARGV[4] * 500 then
            number = least
        end
        redis.call('SET', KEYS[1] .. ':f', string.format('%.0f', number), 'PX', 86400000)
    end
    redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. string.format('%.0f', number) .. ' ' .. time[1] ..
               string.format('%03d', math.floor(time[2] / 1000)) .. ' ' .. ARGV[6], 'PX', ARGV[4])
    return { 1, tonumber(ARGV[4]), number, clock }
end

-- @include name.lua

local token, round, mode, ttl = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local heals, label, wanted = ARGV[5] == 'HEAL', ARGV[6], tonumber(ARGV[7])
local name = name_at(KEYS[1])

-- Nothing shortens a lease: its holder relies on it.
local function held_by_me()
    local value = lock_value(name)
    if value then
        local owner, of = owner_of(value)
        local lease = owner == token and math.max(redis.call('PTTL', name.lock), ttl) or nil
        if not lease then
            return
        end
        local number, since, begin = number_of(value), string.match(value, '^%x+ %d+ %d+ (%d+) '), text(now)
        number = wanted and math.max(number, wanted) or number
        lock_set(name, token, math.max(of, round), number, since or begin, lease, label)
        return lease, number, (since or begin) * 1000
    end
    local ends = tonumber(redis.call('ZSCORE', name.readers, token) or 0)
    if ends >= now then
        ends = math.max(ends, now + ttl)
        readers_set(name, token, math.max(reader_round(name, token), round), ends, label)
        return ends - now, 0, 0
    end
end

local lease, number, clock = held_by_me()
if lease then
    return { 1, lease, number, clock }
end
if not heals then
    pass_on(name, token)
    messages_publish(name)
end
local left, owner = blocked(name, token, mode, not heals)
if left then
    return { 0, math.max(left, -1), owner, now }
end
if mode == 's' then
    readers_set(name, token, round, now + ttl, label)
    return { 1, ttl, 0, 0 }
end
number = wanted or 0
if wanted and not heals then
    number = number_next(name, wanted, ttl)
end
lock_set(name, token, round, number, text(now), ttl, label)
return { 1, ttl, number, now_us }
