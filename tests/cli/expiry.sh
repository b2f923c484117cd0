#!/bin/bash
# Tests: cli/cmd_run.c cli/acquire.c cli/watch.c
# SPDX-License-Identifier: MIT
# dlock run that is stopped past the end of its lease: does the kernel end it and its command before another one has the name (C25), and
# is a loss that dlock sees still its own to report?
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need setsid unshare stat

# begin [OPTION...]: a run whose command writes to the file work until it is ended; its number is in $pid, that of its command in
# $command
begin() {
    rm -f work command.pid
    "$dlock" run "$@" a -- bash -c 'echo $$ >command.pid; while :; do echo >>work; sleep 0.01; done' 2>loss &
    pid=$!
    within 20 test -s work
    command=$(<command.pid)
}

# Another one takes the name, and sees how much was written by then.
size_at_the_next() {
    "$dlock" run --wait 30s a -- stat -c %s work
}

# Two looks at what would have written often.
wrote_nothing_since() {
    sleep 0.3
    equal "$1" "$(stat -c %s work)" "size of the file at the next acquisition, and now"
}

continue_them() {
    kill -CONT "$@" || true
} 2>/dev/null

# dead SIZE: size of the file at the next acquisition
dead() {
    continue_them "$pid" "$command"
    wrote_nothing_since "$1"
    exit_of "$pid"
    equal 137 "$code" "exit code"
    gone "$command"
    equal "" "$(<loss)" "standard error"
}

both_stopped() {
    begin --ttl 1s
    kill -STOP "$pid" "$command"
    dead "$(size_at_the_next)"
}

dlock_stopped() {
    begin --ttl 1s
    kill -STOP "$pid"
    dead "$(size_at_the_next)"
}

a_permit() {
    local size
    begin --ttl 1s --limit 1
    kill -STOP "$command" "$pid"
    size=$("$dlock" run --limit 1 --wait 30s a -- stat -c %s work)
    dead "$size"
}

several_names() {
    begin --ttl 1s -n b -n # a
    kill -STOP "$command" "$pid"
    dead "$(size_at_the_next)"
}

# A double fork in a session of its own.
the_tree_stopped() {
    local all size
    "$dlock" run --ttl 1s --contain a -- bash -c '(setsid bash -c "while :; do echo >>work; sleep 0.01; done" \
        </dev/null >/dev/null 2>&1 &); sleep 60; true' &
    pid=$!
    within 20 test -s work
    mapfile -t all < <(pgrep -P "$pid" && pgrep -P "$(pgrep -d, -P "$pid")")
    [ "${#all[@]}" -ge 3 ] || die "processes: ${all[*]}"
    kill -STOP "$pid" "${all[@]}"
    size=$(size_at_the_next)
    continue_them "$pid" "${all[@]}"
    wrote_nothing_since "$size"
    exit_of "$pid"
    equal 137 "$code" "exit code"
}

grew() {
    [ "$1" -lt "$(stat -c %s work)" ]
}

warned_only() {
    local size
    begin --ttl 1s --on-lost warn
    kill -STOP "$pid" "$command"
    size=$(size_at_the_next)
    kill -CONT "$pid" "$command"
    within 20 grew "$size"
    within 20 grep -q 'lock lost.*the command runs on' loss
    kill -TERM "$command"
    exit_of "$pid"
    equal 70 "$code" "exit code"
}

# The store serves nobody, and dlock runs: it ends the command and says why.
silence() {
    local stall
    "$dlock" run --ttl 6s "$@" -- bash -c 'trap "" TERM; echo $$ >command.pid; while :; do sleep 0.1; done' 2>loss &
    pid=$!
    within 20 test -s command.pid
    "$DLOCK_BIN/cli_stall" "$PWD/locks.db" 12 >stalled &
    stall=$!
    within 20 test -s stalled
    exit_of "$pid"
    equal 70 "$code" "exit code: $(<loss)"
    grep -q 'lock lost: it was not renewed in time; ' loss || die "$(<loss)"
    gone "$(<command.pid)"
    kill "$stall"
    wait "$stall" || true
    rm command.pid stalled
}

silent_store() {
    silence a
    silence -n a -n b -n c
}

again() {
    "$dlock" run --again --ttl 1s a -- bash -c 'echo >>runs; [ "$(wc -l <runs)" -lt 2 ] || exec sleep 2; sleep 60' 2>loss &
    pid=$!
    within 20 test -s runs
    exits 0 "$dlock" break a --yes
    exit_of "$pid"
    equal 0 "$code" "exit code: $(<loss)"
    equal 2 "$(wc -l <runs)" "runs"
}

without_a_timer() {
    local user=(--user --map-root-user)
    [ "$(id -u)" != 0 ] || user=()
    exits 7 unshare "${user[@]}" --pid --fork "$dlock" run a -- sh -c 'exit 7'
    exits 7 "$dlock" -u "$store?renew=off" run a -- sh -c 'exit 7'
    exits 70 "$dlock" -u "$store?renew=off&ttl=2s" run a -- sleep 60
}

shows "dlock and its command stopped past the end: both are dead before the next one has the name" both_stopped
shows "dlock alone stopped: its command, too" dlock_stopped
shows "a permit: it, too" a_permit
shows "several names: they, too" several_names
shows "--contain: all processes of a stopped tree" the_tree_stopped
shows "--on-lost warn: nobody is ended" warned_only
shows "a silent store: dlock ends the command, says why and exits 70" silent_store
shows "--again: the claim that was lost ends nothing later" again
shows "the first process of a PID namespace, and renew=off: no timer, and no error" without_a_timer
tap_end
