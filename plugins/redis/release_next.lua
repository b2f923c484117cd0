-- An exclusive holder is followed by the first who waits, who has not come to read. SET replaces the
-- one by the other.
local name = name_at(1)

local function follow()
    local token, mode, lease, channel, label = queue_head(name)
    if mode ~= 'x' then
        return false
    end
    grant(name, token, lease, channel, label)
    return true
end

if mine and ARGV[3] == '0' then
    local done, followed = pcall(follow) -- else it is given back below, whatever went wrong here
    if done and followed then
        return { 1, name.untold, tonumber(ARGV[4]) }
    end
end
