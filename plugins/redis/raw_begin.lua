-- With key=raw a name has one more key, which is the name itself, as other programs have it. A client
-- with key=raw holds both: the lock's key, so that it and clients without key=raw exclude each other,
-- and the raw key, for other programs. Clients without key=raw know nothing of the raw key.
--
-- KEYS   lock and meta of each name, then the raw key of each
-- What follows is the script for the lock's key; after it comes what is to be done to the raw keys.
local function lock_key()
