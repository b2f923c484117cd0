#!/bin/bash
# Does dlock-bench measure stores with servers side by side, with their limits and what servers say of
# themselves? Beside a MariaDB, a PostgreSQL, an etcd and a ZooKeeper; starts a Redis.
#
#     test_servers.sh WITH_SERVER PROGRAM
set -u
with_server=$1
program=$2
# shellcheck source=tests/kit/tap.sh
. "${0%/*}/../kit/tap.sh"

export TMPDIR=$tap_tmp
json=$tap_tmp/json

says() {
    jq -e "$1" "$json"
}

run() {
    "$with_server" redis --count 3 -- "$program" --uri "redis=redis://127.0.0.1:{port}?restart_guard=0" \
        --uri "nodes=redlock://127.0.0.1:{port},127.0.0.1:{port2},127.0.0.1:{port3}?restart_guard=0" \
        --uri "mysql=mysql://u:secret@127.0.0.1:$DLT_MARIA_PORT/locks?connect_timeout=30s" \
        --uri "session=mysql://u:secret@127.0.0.1:$DLT_MARIA_PORT/locks?strategy=session&table_prefix=s_&connect_timeout=30s" \
        --uri "pg=postgresql://u:secret@127.0.0.1:$DLT_POSTGRES_PORT/locks?connect_timeout=30s" \
        --uri "pgs=postgresql://u:secret@127.0.0.1:$DLT_POSTGRES_PORT/locks?strategy=session&table_prefix=s_&connect_timeout=30s" \
        --uri "etcd=etcd://127.0.0.1:$DLT_ETCD_PORT" --uri "zookeeper=zk://127.0.0.1:$DLT_ZK_PORTS" \
        --limits --async --rounds 1 --duration 200ms --threads 4 --processes 3 --leases 40 --json "$json" \
        --workload alone --workload names --workload processes --workload handoff --workload open \
        --workload waiters --workload leases --workload closing --workload silent
}

check "it runs" run
check "every case ran" says 'all(.cases[]; .rounds == 1)'
check "limits of all eight, and ratios to them" says \
    'all(.cases[] | select(.workload == "alone" and .role == "dlock"); .rate_over_limit.median > 0)'
check "commands and processor time of servers, but PostgreSQL, etcd and ZooKeeper" says \
    'all(.cases[] | select(.workload == "alone" and (.subject | test("pg|plpgsql|prepared|advisory|etcd|Txns|zookeeper|flight") | not));
        .commands.median >= 2 and .server_cpu_us.median > 0)'
check "two calls of scripts are a pair on Redis" says \
    '.cases[] | select(.workload == "alone" and .subject == "redis") |
     .script_calls.median >= 1.9 and .script_calls.median < 2.5'
check "operations of one thread, on all eight" says \
    '[.cases[] | select(.workload == "names" and (.subject | test(", dlock_op_start")) and .pairs_per_s.min > 0)] | length == 8'
check "a queue that gives fences: 11 commands a turn" says \
    '.cases[] | select(.workload == "processes" and .subject == "bare queue, fence and grant") |
     .commands.median > 10 and .commands.median < 12'
check "64 pairs at once count as such" says \
    '.cases[] | select(.subject == "bare hiredis, 64 at once") | .commands.median < 5'
check "sockets are seen" says \
    'all(.cases[] | select(.workload == "alone" and .subject == "bare hiredis"); .sockets.median >= 1)'
check "hand-offs have times" says 'all(.cases[] | select(.workload == "handoff"); .p50_us.median > 0)'
check "a close of 40 locks has a time, where a lock is no connection" says \
    '[.cases[] | select(.workload == "closing" and .worst_ms.median > 0)] | length == 6'
check "and of a store that has fallen silent, where no unlock is answered" says \
    '[.cases[] | select(.workload == "silent") | select(.subject == "redis" or .subject == "mysql") |
      select(.worst_ms.median > 500)] | length == 2'
check "waiters are not counted as pairs" says \
    'all(.cases[] | select(.workload == "waiters"); .pairs_per_s == null and .own_cpu_us != null)'
tap_end
