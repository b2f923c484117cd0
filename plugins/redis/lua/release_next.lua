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
