-- Another program's holder comes before ours in the answer. How many wait for it is not known.
local raw = KEYS[3]
local owner = raw_owner(raw)
if type(owner) == 'table' and not ends_by_itself(raw) then
    return owner
end
local results = lock_key()
local result = results[1]
if owner and owner ~= result[3] and ARGV[2] == '0' then -- on the first page
    local known = type(owner) == 'string'
    local text = known and string.sub(owner, 1, 255) or '-'
    local label = known and '' or 'held by another program'
    for i, value in ipairs({ 'x', text, redis.call('PTTL', raw), 0, -1, label }) do
        table.insert(result, i + 1, value)
    end
end
return results
