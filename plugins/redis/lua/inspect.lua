-- SPDX-License-Identifier: MIT
-- The live holders of names, a page of readers at a time; changes nothing.
--
-- KEYS   lock, meta of each
-- ARGV   the most readers of a name in the answer, how many readers to skip, number of names, number of the
--        request
-- Returns for each name: the number of waiters, and for each holder: mode (x, s, or "limit permit"), token (with
-- a k before it: kept for nobody), time left (-1: no
-- end), fence, held for (-1: not known), label with data; then the number
-- @if raw
-- @include raw.lua
local function lock_key()
-- @end
-- @include fence.lua
-- @include queue.lua
-- @include name.lua

local OWNER_MAX = 255 -- bytes: with key=raw another program may have written any text
local PAGE = 500

local function inspect(name)
    local result = { 0 }

    for first = 0, call('ZCARD', name.queue) - 1, PAGE do
        local tokens = call('ZRANGE', name.queue, first, first + PAGE - 1)
        for _, entry in ipairs(call('HMGET', name.waiters, unpack(tokens))) do
            result[1] = result[1] + (tonumber(string.match(entry or '0', '^%d+') or 0) > now and 1 or 0)
        end
    end

    -- A label may have any bytes.
    local function holder(mode, token, left, fence, since, label)
        since = since and math.floor((tonumber(moment) - tonumber(since)) / 1000) or -1
        for _, value in ipairs({ mode, token, left, fence_read(fence) or 0, since, label or '' }) do
            table.insert(result, value)
        end
    end

    local owner = call('GET', name.lock)
    local meta = call('HMGET', name.meta, 'f', 'h', 'l')
    if owner then
        local token, since, label = string.match(meta[2] or '', '^(%S+) (%d+) (.*)$')
        local known = token == owner
        holder('x', string.sub(owner, 1, OWNER_MAX), call('PTTL', name.lock),
               known and meta[1], known and since, known and label)
    else
        local live = call('ZRANGEBYSCORE', name.readers, string.format('%.0f', now),
                                '+inf', 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[1])
        for i = 1, #live, 2 do
            local entry = call('HGET', name.meta, 'r' .. live[i]) or ''
            local fence, since, label = string.match(entry, '^(%d+) (%d+) (.*)$')
            local mode = meta[3] and meta[3] .. ' ' .. (call('HGET', name.meta, 'p' .. live[i]) or 0)
            holder(mode or 's', live[i], tonumber(live[i + 1]) - now, fence, since, label)
        end
    end
    return result
end

local results = {}
for i = 1, tonumber(ARGV[3]) do -- more keys may follow: the raw keys, and what a cluster is told of
    table.insert(results, inspect(name_at(2 * i - 1)))
end
table.insert(results, tonumber(ARGV[4]))
return results
-- @if raw
end

-- Another program's holder comes before ours in the answer. How many wait for it is not known.
local raw = KEYS[3]
local owner = raw_owner(raw)
if type(owner) == 'table' and not ends_by_itself(raw) then
    return owner
end
local results = lock_key()
local result = results[1]
if owner and owner ~= result[3] and ARGV[2] == '0' then -- on the first page
    local known = type(owner) == 'string'
    local text = known and string.sub(owner, 1, 255) or '-'
    local label = known and '' or 'held by another program'
    for i, value in ipairs({ 'x', text, redis.call('PTTL', raw), 0, -1, label }) do
        table.insert(result, i + 1, value)
    end
end
return results
-- @end
