-- SPDX-License-Identifier: MIT
-- The failover guard: the script looks by itself, when it runs, whether this server may answer "yours" or grant
-- a name. docs/adr/0034-redis-failover-guard.md says why that is enough.
--
-- same.lua is before it. What the client knows of this server (view.h), in one text:
--   id             the replication id: another one after each promotion
--   since          microseconds of this server's clock: when enough replicas followed it (view.lua); 0: not yet
--   t1 o1 t2 o2    two looks: at the moment t this server had written o bytes for its replicas; o is -1: none
--   needed         the replicas that have to follow this server
--   lasts          microseconds that a look counts
--   yours, grants  microseconds from `since` on, until "yours" and until a grant are allowed
local guard = {}
do
    local id, since, t1, o1, t2, o2, needed, lasts, yours, grants = string.match(
        seen,
        '^(%w+) (%d+) (%d+) (%-?%d+) (%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+)$')
    local clock = redis.call('TIME')
    local moment = clock[1] * 1000000 + clock[2]

    -- A replica that acknowledges a byte written after the look still followed this server then: it was promoted
    -- later, if ever. How long ago the acknowledgement came says nothing: a server that stood still finds old
    -- ones in its socket.
    local function confirmed(looked, offset)
        local count, age = 0, moment - tonumber(looked)
        if tonumber(offset) < 0 or age < 0 or age > tonumber(lasts) then
            return false
        end
        for received in string.gmatch(replication, 'port=[1-9]%d*,state=online,offset=(%d+)') do
            count = count + (tonumber(received) > tonumber(offset) and 1 or 0)
        end
        return count >= tonumber(needed)
    end

    local is_followed = is_same and since ~= '0' and (confirmed(t1, o1) or confirmed(t2, o2))

    local function refuse(least)
        if not is_same then
            return refuse_other()
        end
        if not is_followed then
            return redis.error_reply('FAILOVER UNCONFIRMED fewer than ' .. needed ..
                ' replicas confirm that this is still the master')
        end
        local left = tonumber(since) + tonumber(least) - moment
        if left > 0 then
            return redis.error_reply('FAILOVER YOUNG ' ..
                string.format('%.0f %.0f', math.floor(left / 1000) + 1, (moment - since) / 1000) ..
                ' ms: the time that is left of the guard, and the time since the failover')
        end
    end

    -- An error if the answer "yours", or a grant, is not allowed; nil: it is.
    guard.refuse_yours = function() return refuse(yours) end
    guard.refuse_grants = function() return refuse(grants) end
    ARGV.promotion = ' @' .. id -- for the messages of grants; see message_publish
end
