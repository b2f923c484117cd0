-- SPDX-License-Identifier: MIT
-- In a cluster, for view.lua: which slots this master has, and since when. A slot that came from another master may
-- come from one that was just promoted and lacks grants. So the names of a slot have a guard of their own, from the
-- moment when the slot is first seen here.
--
-- KEYS[2]  the record of the slots, which this script alone writes: id (see view.lua), the epoch of this server, and
--          first-last@since for each range. since: when it was first seen here; 0: T + D ago, or longer
-- ARGV     as view.lua, and as the last but one: microseconds after which `since` does not matter
--
-- A slot that is given by SETSLOT to a server that imports it makes the epoch of that server the greatest one. So a slot
-- that went away and came back has changed the epoch here. Between two looks that are no farther apart than a look
-- counts, no slot goes away and comes back after a failover: guarantees.md assumes that. A slot that is MIGRATING counts
-- as new at each look: if the move is taken back (SETSLOT STABLE, FORGET of a dead target), its keys may be lost.
local owned = {}
do
    local RECORD_TTL = 2592000000 -- ms
    local matters = tonumber(table.remove(ARGV, 4))
    local nodes = redis.call('CLUSTER', 'NODES')
    local self, epoch, slots =
        string.match(nodes, '(%x+) %S+ %S*myself%S* %S+ %S+ %S+ (%d+) %S+([^\n]*)')

    -- How many replicas of this server the cluster knows, also of those that are down.
    owned.replicas = function()
        local _, count = string.gsub(nodes, ' %S*slave%S* ' .. self .. ' ', '')
        return count
    end

    -- The ranges of the record. They count if the record is of this promotion, and no slot can have gone away and come
    -- back unseen.
    local function known(stored, id, is_recent)
        local ranges = {}
        local whose, before, list = string.match(stored, '^(%w+) (%d+)(.*)$')
        if whose == id and (is_recent or before == epoch) then
            for first, last, since in string.gmatch(list, ' (%d+)%-(%d+)@(%d+)') do
                table.insert(ranges, { tonumber(first), tonumber(last), tonumber(since) })
            end
        end
        return ranges
    end

    local function range_add(ranges, first, last, since)
        local before = ranges[#ranges]
        if before and before[2] + 1 == first and before[3] == since then
            before[2] = last
        else
            table.insert(ranges, { first, last, since })
        end
    end

    -- The slots that leave, which are in the ranges until they are given: "[slot->-target]".
    local migrating = {}
    for slot in string.gmatch(slots, '%[(%d+)%->%-') do
        table.insert(migrating, tonumber(slot))
    end

    -- The run of slots from first that all leave or all stay, to upto at most. Returns the last slot of the run, and whether the run leaves.
    local function alike(first, upto)
        for _, slot in ipairs(migrating) do
            if slot == first then
                return first, true
            elseif slot > first and slot <= upto then
                upto = slot - 1
            end
        end
        return upto, false
    end

    -- What this server has now. Both lists are in order.
    local function ranges_now(old, moment)
        local ranges, at = {}, 1
        for word in string.gmatch(slots, '%S+') do
            local first, last = string.match(word, '^(%d+)%-?(%d*)$')
            first, last = tonumber(first) or 1, tonumber(last ~= '' and last or first) or 0
            while first <= last do
                while old[at] and old[at][2] < first do
                    at = at + 1
                end
                local range = old[at]
                local was_here = range and range[1] <= first
                local upto = was_here and math.min(last, range[2]) or
                    range and math.min(last, range[1] - 1) or last
                local migrates
                upto, migrates = alike(first, upto)
                local since = was_here and not migrates and range[3] or moment
                range_add(ranges, first, upto, since + matters > moment and since or 0)
                first = upto + 1
            end
        end
        return ranges
    end

    -- Returns the ranges as text. seen: the moment of the look before this one, or 0.
    owned.update = function(id, moment, seen, lasts)
        local stored = redis.call('GET', KEYS[2]) or ''
        local words = {}
        for _, range in ipairs(ranges_now(known(stored, id, moment - seen <= lasts), moment)) do
            table.insert(words, string.format(' %d-%d@%.0f', range[1], range[2], range[3]))
        end
        local text = table.concat(words)
        if stored == id .. ' ' .. epoch .. text then
            redis.call('PEXPIRE', KEYS[2], RECORD_TTL)
        else
            redis.call('SET', KEYS[2], id .. ' ' .. epoch .. text, 'PX', RECORD_TTL)
        end
        return text
    end
end
