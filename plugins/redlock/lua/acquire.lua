-- One node's vote on a name that a plain SET NX did not get.
--
-- KEYS   lock
-- ARGV   token, round, mode (x or s), ttl, what (TRY, or HEAL: the token holds a majority), label, the number that
--        the lease is to have (-: none)
-- Returns 1, lease, number, the clock in microseconds when the lease began
--     or  0, the time that the holder has left (-1: not known), the owner ('': not one token), the clock
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
