#!/bin/bash
# Tests: cli/keep.c cli/lock_options.c cli/acquire.c cli/info.c cli/cmd_inspect.c
# SPDX-License-Identifier: MIT
# C21, C22: dlock run --limit, --keep, --once-per: how many run at once, which permit each has, and when a name
# that ran is free again.
# shellcheck disable=SC2317 # functions are called by name
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq
permit_job=$(realpath "$(dirname "$0")/permit_job")

# A job that notes in the file bad if a fourth one is inside, or one with the same permit. What a killed job has
# left in the directory does not count.
write_job() {
    cp "$permit_job" job
    mkdir in
}

three_at_once() {
    local pids=() pid
    write_job
    for _ in $(seq 12); do
        "$dlock" run --limit 3 j -- ./job &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || die "a run ended with $?"
    done
    [ ! -e bad ] || die "$(cat bad)"
    equal 12 "$(sort -un fences | wc -l)" "runs with a fence of their own"
}

a_permit_of_the_killed_comes_back() {
    "$dlock" run --limit 2 --ttl 1s j -- sleep 60 &
    within 20 held j
    exits 75 "$dlock" run --nowait --limit 2 j -- "$dlock" run --nowait --limit 2 j -- true
    exits 0 "$dlock" run --limit 2 j -- sh -c 'echo $DLOCK_PERMIT'
    equal 1 "$(cat out)" "the permit beside the first one"
    kill -KILL $!
    within 20 is_free j
    exits 0 "$dlock" run --limit 2 j -- sh -c 'echo $DLOCK_PERMIT'
    equal 0 "$(cat out)" "the permit of the killed one"
}

# "No" to a wait that would never end.
nested_runs_that_have_all_permits() {
    exits 0 "$dlock" run --limit 2 j -- "$dlock" run --limit 2 j -- true
    exits 64 timeout -k 1 20 "$dlock" run --limit 2 j -- "$dlock" run --limit 2 j -- \
        "$dlock" run --limit 2 j -- touch ran
    one_line 'j: enclosing dlock runs hold all permits'
    [ ! -e ran ]
}

a_permit_by_its_token() {
    local token
    exits 0 "$dlock" acquire --limit 2 --ttl 1m j
    exits 0 "$dlock" acquire --limit 2 --ttl 1m j
    token=$(grep -oE '[0-9a-f]{32}' out | head -n 1)
    exits 0 "$dlock" renew j --token "$token"
    exits 0 "$dlock" release j --token "$token"
    exits 0 "$dlock" inspect j
    grep -q '^state      held, 1 of 2$' out
}

one_number_for_all() {
    "$dlock" run --limit 2 j -- sleep 60 &
    within 20 held j
    exits 78 "$dlock" run --limit 3 j -- true
    one_line 'limit of 2 .*asks for 3'
    exits 78 "$dlock" run j -- true
    one_line 'limit of 2 .*asks for 1; .*a lock without a limit has 1'
    exits 0 "$dlock" inspect j
    grep -q '^state      held, 1 of 2$' out
    grep -q '^permit     0 of 2$' out
    exits 0 "$dlock" --json inspect j
    jq -e '.holders[0] | .limit == 2 and .permit == 0 and .kept == false' out
}

bad_values() {
    local option
    for option in --limit=0 --limit=1001 --limit=x --limit=-1 --keep=0 --keep=8d --keep=604801s \
        --once-per=0 --once-per=8d; do
        exits 64 "$dlock" run "$option" j -- touch ran
        one_line "${option%%=*}=${option#*=} is not"
    done
    exits 64 "$dlock" run --keep 1m --once-per 1m j -- touch ran
    exits 64 "$dlock" run --keep-always j -- touch ran
    exits 64 "$dlock" run --shared --limit 2 j -- touch ran
    exits 64 "$dlock" run -n a -n b --limit 2 -- touch ran
    exits 64 "$dlock" run -n a -n b --keep 1m -- touch ran
    exits 64 "$dlock" run --shared --keep 1m j -- touch ran
    [ ! -e ran ]
}

a_kept_name_says_when_it_ran() {
    exits 0 "$dlock" run --keep 1h nightly -- true
    exits 75 "$dlock" run --nowait --keep 1h nightly -- touch ran
    one_line 'nightly: ran already at [0-9-]+ [0-9:]+ UTC on .*:[0-9]+@[0-9a-f]{8}, kept until [0-9-]+ [0-9:]+ UTC$'
    exits 0 "$dlock" run --skip-quietly nightly -- touch ran
    exits 75 "$dlock" run --wait 100ms nightly -- touch ran
    [ ! -e ran ]
    exits 0 "$dlock" inspect nightly
    grep -qE '^kept until [0-9-]+ [0-9:]+ UTC, ran on .*:[0-9]+@[0-9a-f]{8}$' out
    exits 0 "$dlock" list
    grep -q '^kept ' out
    exits 0 "$dlock" --json inspect nightly
    jq -e '.held and (.holders[0] | .kept and .owner == null and .remaining_ms > 3500000)' out
    exits 0 "$dlock" break --yes nightly
    exits 0 "$dlock" run nightly -- true
    is_free nightly
}

only_success_is_kept() {
    exits 3 "$dlock" run --keep 1h j -- sh -c 'exit 3'
    is_free j
    exits 143 "$dlock" run --keep 1h j -- sh -c 'kill $$'
    is_free j
    exits 127 "$dlock" run --keep 1h --keep-always j -- ./missing
    is_free j
    exits 3 "$dlock" run --keep 1h --keep-always j -- sh -c 'exit 3'
    held j
}

keep_counts_from_the_start() {
    local began took
    began=$(now_ms)
    exits 0 "$dlock" run --keep 1500ms j -- sleep 1
    exits 0 "$dlock" run --wait 30s j -- true
    took=$(($(now_ms) - began))
    lasted 1500 "$took" 20000 "time until it was free"
}

# Each command writes the moment of its acquisition: fences of sqlite are the microseconds of the wall clock. A period
# that is cut off at its ends is no full one. DLOCK_LONG_TESTS=1: three minutes, once a minute.
once_in_a_period() {
    local period=2 seconds=7 end pids=() pid
    if [ "${DLOCK_LONG_TESTS:-0}" != 0 ]; then
        period=60 seconds=180
    fi
    end=$(($(now_ms) + seconds * 1000))
    for _ in {1..5}; do
        while [ "$(now_ms)" -lt "$end" ]; do
            "$dlock" -q run --nowait --once-per "${period}s" tick -- sh -c 'echo $DLOCK_FENCE; date >>dates' >>fences || true
        done &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid"
    done
    between 2 "$(wc -l <fences)" 5 "runs in four periods or five"
    cat dates
    equal "" "$(awk -v p="$period" '{ print int($1 / 1000000 / p) }' fences | sort | uniq -d)" "periods with two runs"
}

held_by_one() {
    "$dlock" inspect "$1" >out && grep -q '^holder ' out
}

at_most_two_in_a_while() {
    exits 0 "$dlock" run --limit 2 --keep 1h mail -- true
    exits 0 "$dlock" run --limit 2 --keep 1h mail -- sh -c 'echo $DLOCK_PERMIT'
    equal 1 "$(cat out)" "the second permit"
    "$dlock" run --limit 3 --keep 1h post -- true
    "$dlock" run --limit 3 post -- sleep 60 &
    within 20 held_by_one post
    grep -q '^state      held, 1 of 3; 1 kept$' out
    exits 75 "$dlock" run --nowait --limit 2 --keep 1h mail -- touch ran
    one_line 'mail: ran already at '
    [ ! -e ran ]
}

no_permit_of_others() {
    export DLOCK_PERMIT=7
    exits 0 "$dlock" run j -- sh -c 'echo ${DLOCK_PERMIT-none}'
    equal none "$(cat out)" "DLOCK_PERMIT without --limit"
}

shows "at most three at once, each with a permit of its own" three_at_once
shows "the permit of a killed run comes back with its lease" a_permit_of_the_killed_comes_back
shows "nested runs that have all permits are told so" nested_runs_that_have_all_permits
shows "C7 C21: a permit is renewed and released by its token" a_permit_by_its_token
shows "other numbers are refused with both" one_number_for_all
shows "bad values are usage errors" bad_values
shows "a kept name says when it ran, and where" a_kept_name_says_when_it_ran
shows "only a command that succeeded keeps the name" only_success_is_kept
shows "--keep counts from the start of the run" keep_counts_from_the_start
shows "--once-per: one run in each period" once_in_a_period
shows "--limit and --keep: so many runs in a while" at_most_two_in_a_while
shows "DLOCK_PERMIT of an outer run is not passed on" no_permit_of_others
tap_end
