-- SPDX-License-Identifier: MIT
-- Releases a name, or a queue entry.
--
-- KEYS   lock, meta
-- ARGV   token ('*': of any holder), what (UNLOCK, CLEAR, DEQUEUE or BREAK; UNLOCK alone may leave the record of an
--        exclusive holder, with its data, to the next one), 1 to pass nothing on, number of the request
-- Returns the number: the token held the name, and there was no waiter
--     or  whether the token held the name, why it was not passed on or a waiter got no message ('': no
--         failure), number
-- @if raw
-- @include same.lua
-- A release is allowed at any time.
if not is_same then
    ARGV[3] = '1' -- passes nothing on
end
-- @include raw.lua
local function lock_key()
-- @end

-- The name has an exclusive holder (so it has no readers) and no waiter; or it has nothing at all. In the first
-- case the answer is the number alone: a table takes the server longer.
local call = redis.call
local others = string.sub(KEYS[2], 1, -2) -- see name_at in queue.lua
local holder = redis.pcall('GET', KEYS[1]) -- a table: the key is foreign
local mine = holder == ARGV[1] or ARGV[1] == '*' and type(holder) == 'string'
if mine then
    if call('EXISTS', others .. 'q') == 0 then
        call('DEL', KEYS[1])
        if ARGV[2] ~= 'UNLOCK' then
            redis.pcall('HDEL', KEYS[2], 'h')
        end
        return tonumber(ARGV[4])
    end
elseif ARGV[2] == 'BREAK' and type(holder) == 'table' then
    return holder
elseif ARGV[2] ~= 'BREAK' and call('EXISTS', others .. 'r', others .. 'q') == 0 then
    return { 0, '', tonumber(ARGV[4]) }
end

-- @if plain
-- @include same.lua
-- A release is allowed at any time.
if not is_same then
    ARGV[3] = '1' -- passes nothing on
end
-- @end
-- @if guarded
-- @include same.lua
-- @include guard.lua
-- A release is allowed at any time.
if guard.refuse_grants() then
    ARGV[3] = '1' -- passes nothing on
end
-- @end
-- @include fence.lua
-- @include queue.lua

-- The first waiter follows an exclusive holder, unless the waiter is a reader. SET replaces the holder by the
-- waiter.
local name = name_at(1)

local function follow()
    local token, mode, lease, channel, label = queue_head(name)
    if mode ~= 'x' then
        return false
    end
    return grant(name, token, lease, channel, label)
end

if mine and ARGV[3] == '0' then
    local done, followed = pcall(follow) -- if it fails, the rest of the script releases the name
    if done and followed then
        return { 1, name.publish_error, tonumber(ARGV[4]) }
    end
end

-- @include name.lua

local token, what = ARGV[1], ARGV[2]
local freed, failure = 0, ''
local reads = not mine and redis.pcall('ZSCORE', name.readers, token)
if type(reads) == 'table' then -- the key is foreign, so that the token is no reader
    if what == 'BREAK' then
        return reads
    end
    reads = nil
end
local left = not mine and what == 'DEQUEUE' and redis.pcall('ZSCORE', name.queue, token)
if type(left) == 'table' then
    if not reads then
        return left
    end
    left = nil
end

if mine then
    call('DEL', name.lock)
    if what ~= 'UNLOCK' then
        redis.pcall('HDEL', name.meta, 'h')
    end
    freed, holder = 1, nil
elseif token == '*' and readers_live(name) > 0 then
    readers_remove(name, call('ZRANGE', name.readers, 0, -1))
    freed = 1
elseif reads then
    readers_remove(name, { token })
    freed = tonumber(reads) >= now and 1 or freed
end
if left then
    waiter_drop(name, token)
end
if what == 'BREAK' and freed == 0 then
    call('ZCARD', name.queue) -- as inspect does: a name with a foreign key is not free
    call('HGET', name.meta, 'f')
end
-- The release stands, even if passing on fails.
if (freed == 1 or left) and not holder and ARGV[3] == '0' then
    local done, why = pcall(pass_on, name)
    if not done then
        failure = type(why) == 'table' and why.err or tostring(why)
    end
end
return { freed, failure ~= '' and failure or name.publish_error, tonumber(ARGV[4]) }
-- @if raw
end

-- The token held the name if it held both keys. If it held one of them, that one is free afterwards.
local raw, token, what, number = KEYS[3], ARGV[1], ARGV[2], tonumber(ARGV[#ARGV])
local owner = raw_owner(raw)
if what == 'BREAK' and type(owner) == 'table' then
    return owner
end
local mine = owner == token or token == '*' and type(owner) == 'string'
if mine then
    redis.call('DEL', raw)
end
local result = lock_key()
if type(result) == 'number' then
    result = { 1, '', number }
end
if result.err then
    return result
end
if what == 'BREAK' then
    result[1] = mine and 1 or result[1]
elseif not mine then
    result[1] = 0
end
return result
-- @end
