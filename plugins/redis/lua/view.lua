-- SPDX-License-Identifier: MIT
-- What a client has to know for the failover guard (guard.lua); and a write, which replicas can acknowledge.
--
-- KEYS   the record of this master's term, which this script alone writes:
--          id       replication id: the record of a master before this one, which came with the data, counts for nothing
--          since    the moment from which on `needed` replicas have followed this master; 0: not yet
--          last     the last moment at which they are known to have followed
--          joined   how often a replica had joined until then
--          looked   the moment of a look that replicas may still have to acknowledge
--          written  the bytes that were written for replicas before it
--          needed   how many replicas make the term
--          asked    the moment of the last look by a client that needs this number
--          seen     the moment of the last look
-- ARGV   replication id, needed, microseconds that a look counts, number of the request
-- Returns the moment of this look, the bytes written for replicas until then, since ('0': not yet), the replicas
-- online (in a cluster: known), in a cluster the slots and since when they are here (owned.lua), number. '0' as the
-- first: this server is no master with that id
-- @if cluster
-- @include owned.lua
-- @end
-- @if plain
local owned = nil
-- @end
local call = redis.call
local RECORD_TTL = 2592000000 -- ms
local id, needed, lasts, number = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local replication = call('INFO', 'replication')
if not string.find(replication, 'role:master', 1, true) or
        not string.find(replication, 'master_replid:' .. id, 1, true) then
    return { '0', '0', '0', '0', '', number }
end
local clock = call('TIME')
local moment = clock[1] * 1000000 + clock[2]
local offset = tonumber(string.match(replication, 'master_repl_offset:(%d+)'))
local stats = call('INFO', 'stats')
local joins = string.match(stats, 'sync_full:(%d+)') + string.match(stats, 'sync_partial_ok:(%d+)')

local known, since, last, joined, looked, written, before, asked, seen =
    string.match(call('GET', KEYS[1]) or '', '^(%w+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
since, last, joined = tonumber(since), tonumber(last), tonumber(joined)
looked, written, before, asked = tonumber(looked), tonumber(written), tonumber(before), tonumber(asked)
seen = known == id and tonumber(seen) or 0

if known ~= id then
    since, last, joined, looked, written, before, asked = 0, 0, joins, moment, offset, needed, moment
end

local online, count = 0, 0
for received in string.gmatch(replication, 'port=[1-9]%d*,state=online,offset=(%d+)') do -- no backup
    online = online + 1
    count = count + (tonumber(received) > written and 1 or 0)
end

-- A client may see fewer replicas than another client, and then needs fewer. The greater number stays in force
-- while that many replicas confirm, and while some client needs it.
local lower = needed < before and count < before and moment - asked > lasts and moment - looked > lasts
if needed > before or lower then
    since, last, joined, looked, written, before, asked = 0, 0, joins, moment, offset, needed, moment
    count = 0
elseif needed == before then
    asked = moment
end
needed = before
local is_followed = count >= needed

-- A replica that left and came back in between may have followed another master: each of them joined.
local function goes_on(from, to)
    return joined == joins or to - from <= lasts
end

-- The term begins late, never early: when enough replicas are seen to have left any other master.
if since == 0 and is_followed then
    since, last, joined, looked, written = moment, looked, joins, moment, offset
elseif since > 0 then
    local is_confirmed = is_followed and goes_on(last, moment)
    last = is_confirmed and looked or last
    if not goes_on(last, moment) then
        since, last, joined, looked, written = 0, 0, joins, moment, offset
    elseif is_confirmed then
        joined, looked, written = joins, moment, offset
    end
end
-- A server without memory refuses SET, but not after a write that needs none: what is held is still renewed.
call('DEL', KEYS[1])
call('SET', KEYS[1], string.format('%s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f', id, since, last, joined, looked,
                                   written, needed, asked, moment), 'PX', RECORD_TTL)
local slots = ''
if owned then
    slots, online = owned.update(id, moment, seen, lasts), math.max(online, owned.replicas())
end

-- A term that nobody confirmed for a while may have ended unseen: a replica that joins after this look may come
-- from another master.
local reported = moment - last <= lasts and since or 0
return { string.format('%.0f', moment), string.format('%.0f', offset), string.format('%.0f', reported),
         tostring(online), slots, number }
