-- SPDX-License-Identifier: MIT
-- With key=raw a name has one more key: the name itself, as other programs write it. A client with key=raw
-- holds both keys: the lock's key, so that it and clients without key=raw exclude each other, and the raw key,
-- so that it and other programs do. Clients without key=raw do not use the raw key.
--
-- KEYS   lock and meta of each name, then the raw key of each, then on a cluster the other keys of the name
-- A script with key=raw is the script without it as a function, lock_key, and what the raw keys need around it.

-- The holder of a raw key: false, a text, or the error of a key that is no string.
local function raw_owner(raw)
    return redis.pcall('GET', raw)
end

-- Other programs use other types for a lock (Symfony a sorted set). A key that expires is waited for; a key
-- that does not expire is no lock.
local function ends_by_itself(raw)
    return redis.call('PTTL', raw) >= 0
end
