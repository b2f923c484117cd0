-- SPDX-License-Identifier: MIT
-- Takes those of many names that have no holder and no waiter, for exclusive holders. All names are looked at
-- before the first write; after it nothing ends the script. What is wrong with one name is nothing to the others,
-- and is found by its own script, acquire.lua.
--
-- KEYS   lock of each
-- ARGV   token, ttl, label of each; number of the request
-- Returns for each the fence, or '-': not taken, at most a fence was used up; then the number
-- @include same.lua
-- @if guarded
-- @include guard.lua
local refusal = guard.refuse_grants()
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

local keys, free, answers = {}, {}, {}
for i, lock in ipairs(KEYS) do
    keys[3 * i - 2], keys[3 * i - 1], keys[3 * i] = lock, lock .. ':r', lock .. ':q'
end
local all_free = call('EXISTS', unpack(keys)) == 0
for i, lock in ipairs(KEYS) do
    free[lock] = all_free or call('EXISTS', lock, keys[3 * i - 1], keys[3 * i]) == 0
end
local function own(lock, token, lease, label)
    local fence, fresh, waits = fence_next(lock .. ':m')
    if not waits then
        become_owner(lock, lock .. ':m', token, lease, label, fence, fresh)
        return fence
    end
end
for i, lock in ipairs(KEYS) do
    local done, fence
    if free[lock] then
        done, fence = pcall(own, lock, ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
        free[lock] = false -- it may be one of the names that follow, too
    end
    answers[i] = done and fence or '-'
end
return table.concat(answers, ' ') .. ' ' .. ARGV[#ARGV]
