#!/bin/bash
# contend.sh SOURCE-DIR BIN-DIR URI SOCKET-DIR PORT PROCESSES SECONDS LEAST: C1, C6 and C8 for
# processes that want one name, and for processes that want a name each, by their histories; and what
# the server counts of deadlocks, of transactions that it rolled back, and of messages.
set -u
source_dir=$1 bin=$2 uri=$3 socket_dir=$4 port=$5 processes=$6 seconds=$7 least=$8
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"

ask() {
    psql -X -q -A -t -h "$socket_dir" -p "$port" -U postgres -c "$1" locks
}

# Statements of the library that tell others of a grant.
messages() {
    ask "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query ILIKE '%pg_notify%'"
}

# rollbacks: errors of any kind, a serialization failure among them, roll back.
counts() {
    ask "SELECT deadlocks, xact_rollback FROM pg_stat_database WHERE datname = 'locks'"
}

# says EXPECTED COMMAND: what the server counts.
says() {
    local said
    said=$("$2")
    echo "$said"
    [ "$said" = "$1" ]
}

# some COMMAND: the count sees what it counts.
some() {
    [ "$("$1")" -gt 0 ]
}

# contend NAMES: one name or a name each.
contend() {
    rm -f "$tap_tmp"/*.log
    check "C13 $processes on $1: everybody gets the lock, and no call fails" \
        "$bin/contend" "$uri" "$processes" "$seconds" "$least" "$tap_tmp" "$1"
    sed 's/^#* */# /' "$tap_tmp/log"
    check "C1 C6 C8 $processes on $1: claims do not overlap, fences rise, calls return" \
        "$bin/dlock-history-check" --slack 3000 --complete --kept "$tap_tmp"/*.log
}

# The tables are made before, when sessions may meet.
"$bin/dlock" run --uri "$uri" warm -- true
ask 'SELECT pg_stat_reset(); CREATE EXTENSION pg_stat_statements' >/dev/null
contend each
check 'where nobody waits, nobody is told' says 0 messages
contend one
check 'where processes wait, they are told' some messages
sleep 1.5 # sessions report when they end, or once a second
check 'no deadlock, and no transaction that the server rolled back' says '0|0' counts
tap_end
