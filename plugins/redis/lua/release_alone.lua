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
