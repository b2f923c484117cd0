#!/bin/bash
# Tests: cli/supervise.c cli/keep.c
# SPDX-License-Identifier: MIT
# C22: is the name kept if the store fails when CMD ends, and is it said if it is not?
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq

# told PATTERN...: the lines of the file told match the patterns, one by one
told() {
    local line
    equal $# "$(wc -l <told)" "lines: $(cat told)"
    while read -r line; do
        [[ $line =~ ^$1$ ]] || die "'$line' does not match '$1'"
        shift
    done <told
}

# run_start [OPTION...]: a run whose CMD succeeds once the store serves nobody. It is $run, its standard error the file
# err. One exchange of it takes at most 300 ms.
run_start() {
    "$dlock" -u "$store?op_timeout=300ms" run --outcome told "$@" j -- \
        sh -c 'touch started; until [ -s stall ]; do sleep 0.01; done' 2>err &
    run=$!
    within 20 test -e started
}

# stall_start SECONDS: from now on the store serves nobody, for so long
stall_start() {
    "$DLOCK_BIN/cli_stall" "$PWD/locks.db" "$1" >stall &
    stall=$!
}

waits() {
    "$dlock" --json inspect j | jq -e '.waiters == 1'
}

repeats() {
    grep -q 'repeating the unlock' err
}

# Somebody waits meanwhile, and gets nothing.
the_store_comes_back() {
    local waiter
    run_start --keep 1h
    "$dlock" -q run --wait 60s j -- touch ran &
    waiter=$!
    within 20 waits
    stall_start 4
    exit_of "$run"
    equal 0 "$code" "exit code ($(cat err))"
    one_line '^dlock: j: repeating the unlock, which keeps the name, until the lease ends: '
    told waiting 'acquired .*' 'exited code=0' 'released kept=yes' 'end code=0'
    exits 75 "$dlock" run --nowait j -- touch ran
    one_line '^dlock: j: ran already at '
    alive "$waiter"
    [ ! -e ran ]
}

the_lease_ends_before() {
    run_start --keep 1h --ttl 8s
    stall_start 16
    exit_of "$run"
    equal 0 "$code" "exit code: CMD's ($(cat err))"
    equal 2 "$(wc -l <err)" "$(cat err)"
    tail -n 1 err | grep -q '^dlock: j: the name is not kept, because the unlock failed (the lock ends with its lease): ' ||
        die "$(cat err)"
    told waiting 'acquired .*' 'exited code=0' 'unreleased status=UNAVAILABLE kept=no' 'end code=0'
    kill "$stall"
    exits 0 "$dlock" run --wait 60s j -- touch ran
    [ -e ran ]
}

a_signal_ends_the_repetition() {
    run_start --keep 1h
    stall_start 60
    within 30 repeats
    kill -TERM "$run"
    exit_of "$run"
    equal 0 "$code" "exit code: CMD's ($(cat err))"
    tail -n 1 err | grep -q 'j: the name is not kept' || die "$(cat err)"
    told waiting 'acquired .*' 'exited code=0' 'unreleased status=UNAVAILABLE kept=no' 'end code=0'
}

# What a run without --keep did before, and does.
a_plain_release_is_not_repeated() {
    run_start
    stall_start 60
    exit_of "$run"
    equal 0 "$code" "exit code"
    one_line '^dlock: unlock failed \(the lock ends with its lease\): '
    told waiting 'acquired .*' 'exited code=0' 'unreleased status=UNAVAILABLE' 'end code=0'
}

says_whether_it_is_kept() {
    exits 3 "$dlock" run --keep 1h --outcome told j -- sh -c 'exit 3'
    told waiting 'acquired .*' 'exited code=3' 'released kept=no' 'end code=3'
    exits 127 "$dlock" run --keep 1h --keep-always --outcome told j -- ./missing
    told waiting 'acquired .*' 'released kept=no' 'end code=127'
    "$dlock" run --ttl 2s --keep 1h --keep-always --outcome told j -- sleep 60 &
    run=$!
    within 20 held j
    exits 0 "$dlock" break --yes j
    exit_of "$run"
    equal 70 "$code" "exit code"
    told waiting 'acquired .*' 'lost reason=taken' 'exited signal=15' 'end code=70' # nothing is kept
    exits 0 "$dlock" -v run --once-per 1h --outcome told j -- true
    told waiting 'acquired .*' 'exited code=0' 'released kept=yes' 'end code=0'
    grep -qx 'dlock: j: released, and kept' err
}

shows "a store that fails for four seconds: the name is kept, and nobody gets it before" the_store_comes_back
shows "a store that fails until the lease ends: it is said that the name is not kept" the_lease_ends_before
shows "a signal ends the repetition, and it is said that the name is not kept" a_signal_ends_the_repetition
shows "a release that keeps nothing is not repeated" a_plain_release_is_not_repeated
shows "released, unreleased: kept=yes or kept=no" says_whether_it_is_kept
tap_end
