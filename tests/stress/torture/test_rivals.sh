#!/bin/bash
# SPDX-License-Identifier: MIT
# Do the records of a rival's clients reach the checker, and does it see what they say? A lock of
# redis-py on one server, where it is one; the same clients without a lock; on sentinels; a client that
# fails. node-redlock is not here to be run: are its records as long as those that were read?
# usage: test_rivals.sh SOURCE_DIR DLOCK_TORTURE
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
torture=$2
export PYTHONDONTWRITEBYTECODE=1

# run NAME COMMAND [OPTION...]: its status is in NAME.status.
run() {
    local name=$1 command=$2
    shift 2
    "$torture" --processes 2 --duration 8s --keep "$tap_tmp/$name" --rival "$command" "$@" \
        >"$tap_tmp/$name.out" 2>&1
    echo $? >"$tap_tmp/$name.status"
}

# ended NAME STATUS PATTERN: so it ended, and said that.
ended() {
    cat "$tap_tmp/$1.out"
    [ "$(cat "$tap_tmp/$1.status")" -eq "$2" ] && grep -qE "$3" "$tap_tmp/$1.out"
}

rivals=$1/tests/stress/torture/rivals
python="/usr/bin/python3 $rivals/redis_py.py"
run lock "$python lock" --backend redis &
run none "$python none" --backend redis &
run sentinel "$python wait seen" --backend redis-sentinel --profile C-failover --duration 12s &
wait
run fails false --backend redis --duration 1s
run elsewhere "$python lock" --backend sqlite
run looks "$python lock" --backend redis --until-seen

check 'a lock of redis-py on one server: no overlap' ended lock 0 '^# overlaps 0 by history'
check '... in more than a few locks' ended lock 0 'acquisitions [1-9][0-9]'
check 'the same clients without a lock: overlaps' ended none 0 '^# overlaps [1-9][0-9]* by history'
check '... that last' ended none 0 '^# longest overlap [1-9]'
length=$(cd "$rivals" && /usr/bin/python3 -c 'import rival; print(rival.Log.RECORD.size)')
check 'the client in Node writes records of the same length' grep -q "RECORD_SIZE = $length," "$rivals/node_redlock.mjs"
check 'SET NX and WAIT where masters are replaced' ended sentinel 0 'profile C-failover'
check 'a command that fails' ended fails 1 '^not ok .* all clients ended by themselves'
check 'on a store that it cannot be on' ended elsewhere 2 'dlock-torture: --rival is for redis'
check 'looking at shared memory' ended looks 2 'dlock-torture: --until-seen needs clients'
tap_end
