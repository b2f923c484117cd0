-- SPDX-License-Identifier: MIT
-- Releases a name on one node, or a queue entry.
--
-- KEYS   lock
-- ARGV   token ('*': of any holder), the last round that it is for ('*': all), what (UNLOCK; UNDO: the queue
--        entry stays; DEQUEUE: the queue entry alone)
-- Returns 1 if it was held by the token, 0 if not

-- The name has no reader and no waiter.
if ARGV[3] ~= 'DEQUEUE' and redis.call('EXISTS', KEYS[1] .. ':r', KEYS[1] .. ':q') == 0 then
    local value = redis.pcall('GET', KEYS[1]) -- a table: the key is foreign
    if type(value) ~= 'string' then
        return 0
    end
    local token, round = string.match(value, '^(%x+) (%d+) ')
    if value == '~' or (ARGV[1] ~= '*' and ((token or value) ~= ARGV[1] or
            (ARGV[2] ~= '*' and tonumber(round or 0) > tonumber(ARGV[2])))) then
        return 0
    end
    return redis.call('DEL', KEYS[1])
end

-- @include name.lua

local token, last, what = ARGV[1], tonumber(ARGV[2]) or math.huge, ARGV[3]
local name = name_at(KEYS[1])
local freed, left = 0, 0

-- A foreign key holds nothing. Once the name is released no failure changes the answer.
local function attempt(step, ...)
    local done, result = pcall(step, ...)
    if not done and freed == 0 and not is_foreign(result) then
        error(result)
    end
    return done and result or 0
end

local function reader_release(reader)
    local ends = tonumber(redis.call('ZSCORE', name.readers, reader) or 0)
    if last == math.huge or reader_round(name, reader) <= last then
        local dropped = reader_drop(name, reader)
        return ends >= now and dropped or 0
    end
    return 0
end

if what ~= 'DEQUEUE' then
    local value = redis.pcall('GET', name.lock) -- a table: the key is foreign
    if type(value) ~= 'table' then
        lock_known(name, value)
    end
    if name.value then
        local owner, round = owner_of(value)
        if token == '*' or (owner == token and round <= last) then
            freed = lock_drop(name)
        end
    end
    local readers = { token }
    if token == '*' then
        readers = redis.pcall('ZRANGE', name.readers, 0, -1)
    elseif freed == 1 then
        readers = {}
    end
    for _, reader in ipairs(readers) do -- none, if that is an error
        freed = math.max(freed, attempt(reader_release, reader))
    end
end
if what ~= 'UNDO' then
    left = attempt(dequeue, name, token)
end
if freed == 1 or left == 1 then
    attempt(pass_on, name)
end
messages_publish(name)
return freed
