-- The live waiters of a name in the order of the queue, a page at a time; changes nothing.
--
-- KEYS   lock, meta
-- ARGV   the number in the queue after which the page begins, the most waiters of a page, number of the request
-- Returns the number after which the next page begins ('': this was the last page), for each waiter: mode (x, s or
--         a limit), token, label; then the number
local after, most = ARGV[1], tonumber(ARGV[2])
local name = name_at(1)
local found = call('ZRANGEBYSCORE', name.queue, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local result = { #found == 2 * most and found[#found] or '' }
for i = 1, #found, 2 do
    local mode, _, _, label = waiter_read(call('HGET', name.waiters, found[i]))
    for _, value in ipairs(mode and { mode, found[i], string.match(label, '^%Z*') } or {}) do
        table.insert(result, value)
    end
end
table.insert(result, tonumber(ARGV[3]))
return result
