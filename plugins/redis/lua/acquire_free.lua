-- The name has no holder and no waiter. The answer is fence and number in one string: a table takes the
-- server longer.
local others = string.sub(KEYS[2], 1, -2) -- see name_at in queue.lua
if ARGV[2] == 'x' and ARGV[4] ~= 'REFRESH' and
        call('EXISTS', KEYS[1], others .. 'r', others .. 'q') == 0 then
    local fence, fresh, waits = fence_next(KEYS[2])
    if not waits then
        become_owner(KEYS[1], KEYS[2], ARGV[1], ARGV[3], ARGV[7], fence, fresh)
        return fence .. ' ' .. ARGV[8]
    end
end
