end

-- Who holds a raw key: false, a text, or the error of a key that is no string.
local function raw_owner(raw)
    return redis.pcall('GET', raw)
end

-- Other programs keep other types for a lock (Symfony a sorted set). What ends by itself is waited for;
-- what does not end is no lock.
local function ends_by_itself(raw)
    return redis.call('PTTL', raw) >= 0
end
