-- SPDX-License-Identifier: MIT
-- The live waiters of a name in the order of the queue, a page at a time; changes nothing.
--
-- KEYS   lock, meta
-- ARGV   the number in the queue after which the page begins, the most waiters of a page, number of the request
-- Returns the number after which the next page begins ('': this was the last page), for each waiter: mode (x, s or
--         a limit), token, label, waited for (-1: not known); then the number
-- @include fence.lua
-- @include queue.lua

local YEAR_2001 = 10 ^ 15 -- a number in the queue below that is a count
local after, most = ARGV[1], tonumber(ARGV[2])
local name = name_at(1)
local found = call('ZRANGEBYSCORE', name.queue, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local result = { #found == 2 * most and found[#found] or '' }
for i = 1, #found, 2 do
    local mode, _, _, label = waiter_read(call('HGET', name.waiters, found[i]))
    local since = tonumber(found[i + 1])
    local waited = since > YEAR_2001 and math.floor((tonumber(moment) - since) / 1000) or -1
    for _, value in ipairs(mode and { mode, found[i], string.match(label, '^%Z*'), math.max(waited, -1) } or {}) do
        table.insert(result, value)
    end
end
table.insert(result, tonumber(ARGV[3]))
return result
