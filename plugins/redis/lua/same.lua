-- SPDX-License-Identifier: MIT
-- Is this the server that the client judged, and what it was then? The script looks by itself, when it runs: a
-- connection may outlive what it was made to. A proxy keeps it while the server behind it starts anew, and a master
-- keeps it while it follows another server for a moment. Either may have forgotten what this client or another one
-- holds.
--
-- The last argument, which is removed here, is what the client knows. It begins with the replication id: another one
-- after each start, and after each promotion. "alone" follows: no replica may follow the server, as nothing guards
-- against a failover.
local seen = table.remove(ARGV)
local replication = redis.call('INFO', 'replication')
local is_same = string.find(replication, 'role:master', 1, true) and
    string.find(replication, 'master_replid:' .. string.match(seen, '^%w+'), 1, true)
if is_same and string.find(seen, ' alone', 1, true) and
        not string.find(replication, 'connected_slaves:0', 1, true) then
    local _, copies = string.gsub(replication, ',port=0,', '') -- as followers_parse in info.c
    is_same = tonumber(string.match(replication, 'connected_slaves:(%d+)')) == copies
end
local function refuse_other()
    return redis.error_reply('FAILOVER OTHER not the master that the client saw')
end
