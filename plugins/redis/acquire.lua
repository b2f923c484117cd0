-- One attempt to take a name.
--
-- KEYS   lock, meta, readers, queue, waiters
-- ARGV   token, mode (x or s), ttl, what (TRY, ENQUEUE or REFRESH), lease of a place, channel
--        ('-': none), label, question
-- Returns 1, fence, lease, waiters, question
--     or  0, what the holder has left (-1: not known), waiters, 1 if queued, waiters before me,
--         the last fence, question
local token, mode, ttl, what = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local place, channel, label = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local name = name_at(1)
local last_fence = redis.call('HGET', name.meta, 'f')

-- Nothing shortens a lease that somebody may rely on.
local function held_by_me(owner)
    if owner == token then
        local left = redis.call('PTTL', name.lock)
        if left < ttl then
            redis.call('PEXPIRE', name.lock, ttl)
        end
        return { 1, tonumber(last_fence or 0) or 0, math.max(left, ttl) }
    end
    local ends = not owner and tonumber(redis.call('ZSCORE', name.readers, token) or 0)
    if ends and ends > now then
        readers_set(name, token, math.max(ends, now + ttl))
        return { 1, reader_fence(name, token), math.max(ends - now, ttl) }
    end
end

local function take(queued)
    if queued then
        waiter_drop(name, token)
    end
    if mode == 's' then
        return { 1, become_reader(name, token, ttl, label), ttl }
    end
    return { 1, become_owner(name, token, ttl, label), ttl }
end

-- Nobody passes a live waiter: the first of them gets a free name, whoever asks.
local function try()
    local owner = redis.call('GET', name.lock)
    local held = held_by_me(owner)
    if held then
        return held
    end
    if owner then
        return nil
    end
    local head = queue_head(name)
    if head and head ~= token then
        pass_on(name)
        held = held_by_me() -- among other readers
        if held or redis.call('EXISTS', name.lock) == 1 then
            return held
        end
        head = queue_head(name)
    end
    if (not head and what ~= 'REFRESH') or head == token then
        if mode == 's' or readers_live(name) == 0 then
            return take(head == token)
        end
    end
    return nil
end

-- Opens the way for what needs memory, in a server that has none to spare.
local function make_room()
    redis.call('HDEL', name.waiters, '-')
end

local function keep_place()
    local lives = waiter_lives(name, token)
    if not lives then
        if what == 'REFRESH' then
            waiter_drop(name, token)
            return false
        end
        local number = redis.call('HINCRBY', name.waiters, 'n', 1)
        redis.call('ZADD', name.queue, number, token)
    else
        make_room()
    end
    redis.call('HSET', name.waiters, 'e' .. token, now + place, 'w' .. token,
               mode .. ' ' .. ARGV[5] .. ' ' .. #channel .. ' ' .. channel .. ' ' .. label)
    for _, key in ipairs({ name.queue, name.waiters }) do
        redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), place + 1000))
    end
    waiters_reap(name)
    return true
end

-- What the present holder has left; of readers the last one counts.
local function holder_left()
    local left = redis.call('PTTL', name.lock)
    if left == -2 then
        local last = redis.call('ZRANGE', name.readers, -1, -1, 'WITHSCORES')
        left = last[2] and tonumber(last[2]) - now or -1
    end
    return math.max(left, -1)
end

local result = try()
if result then
    result[4] = redis.call('ZCARD', name.queue)
else
    local queued = what ~= 'TRY' and keep_place()
    local waiting = redis.call('ZCARD', name.queue)
    local rank = queued and redis.call('ZRANK', name.queue, token) or waiting
    result = { 0, holder_left(), queued and waiting - 1 or waiting, queued and 1 or 0, rank,
               tonumber(last_fence or 0) or 0 }
end
tell(name)
table.insert(result, tonumber(ARGV[8]))
return result
