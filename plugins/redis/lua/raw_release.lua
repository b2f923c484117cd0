-- The token held the name if it held both keys. If it held one of them, that one is free afterwards.
local raw, token, what, number = KEYS[3], ARGV[1], ARGV[2], tonumber(ARGV[#ARGV])
local owner = raw_owner(raw)
if what == 'BREAK' and type(owner) == 'table' then
    return owner
end
local mine = owner == token or token == '*' and type(owner) == 'string'
if mine then
    redis.call('DEL', raw)
end
local result = lock_key()
if type(result) == 'number' then
    result = { 1, '', number }
end
if result.err then
    return result
end
if what == 'BREAK' then
    result[1] = mine and 1 or result[1]
elseif not mine then
    result[1] = 0
end
return result
