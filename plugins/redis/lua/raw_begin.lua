-- With key=raw a name has one more key: the name itself, as other programs write it. A client with key=raw
-- holds both keys: the lock's key, so that it and clients without key=raw exclude each other, and the raw key,
-- so that it and other programs do. Clients without key=raw do not use the raw key.
--
-- KEYS   lock and meta of each name, then the raw key of each, then on a cluster the other keys of the name
-- The script for the lock's key follows, and after it the script for the raw keys.
local function lock_key()
