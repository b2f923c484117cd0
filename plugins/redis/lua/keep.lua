-- SPDX-License-Identifier: MIT
-- Ends a lease, and keeps the name, or the permit, for nobody.
--
-- KEYS   lock, meta
-- ARGV   token, how long to keep, number of the request
-- Returns the number: kept
--     or  0, '', number: the token did not hold the name
-- @include same.lua
-- @if guarded
-- @include guard.lua
local refusal = guard.refuse_yours() -- what is kept has to be known to the next master, or end before it grants
if refusal then
    return refusal
end
-- @end
-- @if plain
if not is_same then
    return refuse_other()
end
-- @end
-- @include fence.lua
-- @include queue.lua
-- @include name.lua

local token, keep = ARGV[1], tonumber(ARGV[2])
local name = name_at(1)
local owner = call('GET', name.lock)
local ends = tonumber(not owner and call('ZSCORE', name.readers, token) or 0)
local known = call('HMGET', name.meta, 'f', 'h', 'r' .. token, 'l', 'p' .. token)
local nobody = 'k' .. token
local record, limit, permit

if owner == token then
    local fence = fence_read(known[1]) and known[1] or moment
    record = fence .. ' ' .. (string.match(known[2] or '', '^' .. token .. ' (.*)$') or moment .. ' ')
    limit, permit = '1', '0'
elseif ends >= now and known[4] then
    record, limit, permit = known[3] or moment .. ' ' .. moment .. ' ', known[4], known[5] or '0'
else
    return { 0, '', tonumber(ARGV[3]) }
end
-- The deletions come first: after them no write is refused for memory.
call('DEL', name.lock)
call('ZREM', name.readers, token)
call('HDEL', name.meta, 'h', 'r' .. token, 'p' .. token)
call('HSET', name.meta, 'f', fence_read(known[1]) and known[1] or moment, 'l', limit,
     'r' .. nobody, string.match(record, '^%Z*'), 'p' .. nobody, permit) -- without the data
meta_keep(name.meta, keep, not known[1])
readers_set(name, nobody, now + keep)
return tonumber(ARGV[3])
