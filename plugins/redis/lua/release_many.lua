-- SPDX-License-Identifier: MIT
-- Releases those of many names that their exclusive holders give back and no waiter wants. All of them are
-- deleted by one command: if anything is refused, nothing was written.
--
-- KEYS   lock of each
-- ARGV   token of each; number of the request
-- Returns for each 1, or '-': nothing was written, and its own script, release.lua, is to be asked; then the number
local call = redis.call
local queues, answers, mine, released = {}, {}, {}, {}
for i, lock in ipairs(KEYS) do
    queues[i] = lock .. ':q'
end
local no_queue = call('EXISTS', unpack(queues)) == 0
for i, lock in ipairs(KEYS) do
    answers[i] = '-'
    if not released[lock] and redis.pcall('GET', lock) == ARGV[i] and -- a table: the key is foreign
            (no_queue or call('EXISTS', queues[i]) == 0) then
        table.insert(mine, lock)
        released[lock], answers[i] = true, '1'
    end
end
if #mine > 0 then
    call('DEL', unpack(mine))
end
return table.concat(answers, ' ') .. ' ' .. ARGV[#ARGV]
