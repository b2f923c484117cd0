-- The live holders of a name; changes nothing.
--
-- KEYS   lock, meta, readers, queue, waiters
-- ARGV   most holders to be told
-- Returns waiters, and for each holder: mode (x or s), token, left (-1: no end), fence,
-- held for (-1: not known), label.
local OWNER_MAX = 255 -- bytes: with key=raw it may be another program's, and anything

local name = name_at(1)
local result = { redis.call('ZCARD', name.queue) }

local function holder(mode, token, left, fence, since, label)
    for _, value in ipairs({ mode, token, left, fence, since, label }) do
        table.insert(result, value)
    end
end

local owner = redis.call('GET', name.lock)
if owner then
    local meta = redis.call('HMGET', name.meta, 'o', 'f', 's', 'l')
    local known = meta[1] == owner
    owner = string.sub(owner, 1, OWNER_MAX)
    holder('x', owner, redis.call('PTTL', name.lock), known and tonumber(meta[2]) or 0,
           known and now - tonumber(meta[3]) or -1, known and meta[4] or '')
else
    local live = redis.call('ZRANGEBYSCORE', name.readers, '(' .. string.format('%.0f', now),
                            '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
    for i = 1, #live, 2 do
        local entry = redis.call('HGET', name.meta, 'r' .. live[i]) or ''
        local fence, since, label = string.match(entry, '^(%d+) (%d+) (.*)$')
        holder('s', live[i], tonumber(live[i + 1]) - now, tonumber(fence or 0),
               since and now - tonumber(since) or -1, label or '')
    end
end
return result
