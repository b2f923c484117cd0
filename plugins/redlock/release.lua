-- Gives a name back on one node, or a place in its queue.
--
-- KEYS   lock
-- ARGV   token ('*': of any holder), the last round that is meant ('*': all), what (UNLOCK, UNDO: the place
--        stays, LEAVE: the place only)
-- Returns 1 if it was held by the token, 0 if not
local token, last, what = ARGV[1], tonumber(ARGV[2]) or math.huge, ARGV[3]
local name = name_at(KEYS[1])
local freed, left = 0, 0

if what ~= 'LEAVE' then
    local value = redis.pcall('GET', name.lock) -- a table: not a string, and nobody's lock
    if type(value) ~= 'table' then
        lock_known(name, value)
    end
    if name.value then
        local owner, round = owner_of(value)
        if token == '*' or (owner == token and round <= last) then
            freed = lock_drop(name)
        end
    end
    local readers = { token }
    if token == '*' then
        readers = redis.call('ZRANGE', name.readers, 0, -1)
    elseif freed == 1 then
        readers = {}
    end
    for _, reader in ipairs(readers) do
        if reader_round(name, reader) <= last and reader_drop(name, reader) == 1 then
            freed = 1
        end
    end
end
if what ~= 'UNDO' then
    left = place_drop(name, token)
end
if freed == 1 or left == 1 then
    pass_on(name)
end
tell(name)
return freed
