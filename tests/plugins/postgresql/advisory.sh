#!/bin/bash
# advisory.sh SOURCE-DIR BIN-DIR PORT TURNS: `dlock run` with key=advisory:N and psql with
# pg_advisory_lock(N) add to one number in a file, in turns.
set -u
source_dir=$1 dlock=$2/dlock port=$3 turns=$4
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
cd "$tap_tmp" || exit 1
export DLOCK_URI="postgresql://u:secret@127.0.0.1:$port/locks?strategy=session&key=advisory:4711"
export PGPASSWORD=secret
echo 0 >number

# Reads, lets others run, writes.
cat >add <<'END'
n=$(cat number)
sleep 0.002
echo $((n + 1)) >number
END

by_dlock() {
    for ((i = 0; i < turns; i++)); do
        "$dlock" run --wait 60s job -- bash add || return
    done
}

by_psql() {
    for ((i = 0; i < turns; i++)); do
        echo 'SELECT pg_advisory_lock(4711);'
        echo '\! bash add'
        echo 'SELECT pg_advisory_unlock(4711);'
    done | psql -X -q -o /dev/null -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U u locks
}

both_add() {
    by_dlock &
    local dlock_pid=$!
    by_psql || return
    wait "$dlock_pid" || return
    same $((2 * turns)) "$(cat number)"
}

# The same without locks: the test would notice.
without_locks() {
    echo 0 >number
    for _ in 1 2; do
        for ((i = 0; i < turns; i++)); do
            bash add
        done &
    done
    wait
    same $((2 * turns)) "$(cat number)"
}

check "dlock and psql lose no addition in $turns turns each" both_add
check_not "without locks they do" without_locks
tap_end
