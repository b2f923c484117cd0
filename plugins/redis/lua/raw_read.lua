end

-- The holder of a raw key: false, a text, or the error of a key that is no string.
local function raw_owner(raw)
    return redis.pcall('GET', raw)
end

-- Other programs use other types for a lock (Symfony a sorted set). A key that expires is waited for; a key
-- that does not expire is no lock.
local function ends_by_itself(raw)
    return redis.call('PTTL', raw) >= 0
end
