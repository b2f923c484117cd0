-- SPDX-License-Identifier: MIT
-- Extends leases, one independent of another.
--
-- KEYS   lock, meta of each
-- ARGV   token, ttl, and D to make a reader of the exclusive holder, A to adopt, else '-', of each;
--        1 to pass nothing on; number of the request
-- Returns for each: lease (0 if the token does not hold the name) and waiters, or an error; then the number
-- @include same.lua
-- @if guarded
-- @include guard.lua
-- An adoption is alone in its script. Its token may have been unlocked at another master, which granted the name since.
local refusal = ARGV[3] == 'A' and guard.refuse_grants() or guard.refuse_yours()
if refusal then
    return refusal
end
if guard.refuse_grants() then
    ARGV[#ARGV - 1] = '1' -- passes nothing on
end
-- @end
-- @if plain raw
if not is_same then
    return refuse_other()
end
-- @end
-- @if raw
-- @include raw.lua
local function lock_key()
-- @end
-- @include fence.lua
-- @include queue.lua
-- @include name.lua

local function stay_owner(name, token, ttl)
    local left = call('PTTL', name.lock)
    if left < ttl then
        call('PEXPIRE', name.lock, ttl)
    end
    return math.max(left, ttl)
end

local function stay_reader(name, token, ttl, ends)
    ends = math.max(ends, now + ttl)
    call('ZREM', name.readers, '-') -- a first write that needs no memory: then no later one is refused
    readers_set(name, token, ends)
    return ends - now
end

-- The deletions come first: after them no write is refused for memory. They remove what is left of dead
-- readers, too.
local function downgrade(name, token, ttl)
    local left = call('PTTL', name.lock)
    local kept = call('HMGET', name.meta, 'f', 'h')
    local fence = fence_read(kept[1]) and string.format('%.0f', kept[1]) or moment
    local rest = string.match(kept[2] or '', '^' .. token .. ' (.*)$') or moment .. ' '
    call('ZCARD', name.readers)
    call('DEL', name.lock)
    call('DEL', name.meta)
    call('HSET', name.meta, 'f', fence, 'r' .. token, fence .. ' ' .. rest)
    readers_set(name, token, now + math.max(left, ttl))
    if ARGV[#ARGV - 1] == '0' then
        pcall(pass_on, name) -- the lease is a reader's, even if this fails
    end
    return math.max(left, ttl)
end

local function renew(name, token, ttl, becomes)
    local lease = 0
    local owner = redis.pcall('GET', name.lock)
    if type(owner) == 'table' then
        return owner
    end
    if owner == token then
        local stay = becomes == 'D' and downgrade or stay_owner
        lease = stay(name, token, ttl)
    elseif not owner then
        local ends = redis.pcall('ZSCORE', name.readers, token)
        if type(ends) == 'table' then
            return ends
        end
        ends = tonumber(ends or 0)
        if ends >= now then
            lease = stay_reader(name, token, ttl, ends)
        end
    end
    if lease == 0 then
        return { 0, 0 }
    end
    if type(redis.pcall('HGET', name.meta, 'f')) == 'string' then -- else the key is foreign, or gone
        meta_keep(name.meta, lease)
    end
    local done, waiters = pcall(waiters_reap, name) -- renewed, even if the queue's key is foreign
    return { lease, done and waiters or 0 }
end

-- The text as the server reports it: an error of the server begins with a word in capitals.
local function error_text(failure)
    local text = type(failure) == 'table' and failure.err or tostring(failure)
    text = string.gsub(text, '^%-', '')
    return string.match(text, '^%u+ ') and text or 'ERR ' .. text
end

local results = {}
for i = 0, (#ARGV - 2) / 3 - 1 do
    local done, result = pcall(renew, name_at(2 * i + 1), ARGV[3 * i + 1],
                               tonumber(ARGV[3 * i + 2]), ARGV[3 * i + 3])
    if not done then
        result = { err = error_text(result) }
    end
    results[i + 1] = result
end
table.insert(results, tonumber(ARGV[#ARGV]))
return results
-- @if raw
end

-- A lease is renewed if the token holds both keys.
local results = lock_key()
local count = #results - 1
for i = 1, count do
    local raw, ttl = KEYS[2 * count + i], results[i][1]
    if ttl and ttl > 0 then
        if raw_owner(raw) ~= ARGV[3 * i - 2] then
            results[i] = { 0, 0 }
        elseif redis.call('PTTL', raw) < ttl then
            redis.call('PEXPIRE', raw, ttl)
        end
    end
end
return results
-- @end
