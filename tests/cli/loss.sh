#!/bin/bash
# SPDX-License-Identifier: MIT
# dlock run when its lock is lost: the command is gone in time, and dlock exits 70.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq

# started FILE: the first line of a command's output, once it is there
started() {
    within 20 test -s "$1"
    head -1 "$1"
}

break_ends_the_command() {
    local pid child began
    "$dlock" run --ttl 6s a -- sh -c 'echo $$; exec sleep 100' >child 2>loss &
    pid=$!
    child=$(started child)
    began=$(now_ms)
    exits 0 "$dlock" break a --yes
    within 20 gone "$child"
    lasted 0 $(($(now_ms) - began)) 5000 "time to the end of the command"
    exit_of "$pid"
    equal 70 "$code" "exit code"
    equal 1 "$(wc -l <loss)" "lines: $(cat loss)"
    grep -q '^dlock: a: lock lost: it was broken' loss || die "$(cat loss)"
}

break_kills_what_ignores_sigterm() {
    local pid child began
    "$dlock" run --ttl 1500ms a -- sh -c 'trap "" TERM; echo $$; while :; do sleep 0.1; done' \
        >child 2>loss &
    pid=$!
    child=$(started child)
    began=$(now_ms)
    "$dlock" break a --yes
    exit_of "$pid"
    equal 70 "$code" "exit code"
    gone "$child"
    lasted 300 $(($(now_ms) - began)) 10000 "time to its end"
}

break_reaches_the_whole_group() {
    local pid grandchild
    "$dlock" run --ttl 1s a -- sh -c 'sh -c "trap \"\" TERM; echo \$\$; while :; do sleep 0.1; done" &
        wait' >child 2>loss &
    pid=$!
    grandchild=$(started child)
    "$dlock" break a --yes
    exit_of "$pid"
    equal 70 "$code" "exit code"
    gone "$grandchild"
}

the_command_may_clean_up() {
    local pid
    "$dlock" run --ttl 4s a -- \
        sh -c 'trap "sleep 0.2; echo cleaned; exit 0" TERM; echo up; while :; do sleep 0.05; done' \
        >child 2>loss &
    pid=$!
    started child
    "$dlock" break a --yes
    exit_of "$pid"
    equal 70 "$code" "exit code, though the command exited 0"
    equal cleaned "$(tail -1 child)"
}

a_stopped_command_may_clean_up_too() {
    local pid child
    "$dlock" run --ttl 4s a -- \
        sh -c 'trap "echo cleaned; exit 0" TERM; echo $$; while :; do sleep 0.05; done' >child 2>loss &
    pid=$!
    child=$(started child)
    kill -STOP "$child"
    "$dlock" break a --yes
    exit_of "$pid"
    equal 70 "$code" "exit code"
    equal cleaned "$(tail -1 child)"
}

warn_lets_it_run() {
    local pid
    "$dlock" run --ttl 1s --on-lost warn a -- sh -c 'echo up; sleep 1.5; echo done' >child 2>loss &
    pid=$!
    started child
    "$dlock" break a --yes
    exit_of "$pid"
    equal 70 "$code" "exit code"
    equal "done" "$(tail -1 child)"
    equal 1 "$(wc -l <loss)" "lines: $(cat loss)"
    grep -q 'lock lost.*the command runs on' loss
}

lost_just_before_the_end() {
    local pid
    "$dlock" run --ttl 60s a -- sh -c 'echo up; while [ ! -e go ]; do sleep 0.02; done' >child 2>loss &
    pid=$!
    started child
    "$dlock" break a --yes
    touch go
    exit_of "$pid"
    equal 70 "$code" "exit code"
    grep -q '^dlock: a: lock lost' loss
}

# The store serves nobody: the command must be gone before anybody else may have the lock.
silence_ends_it_before_the_lease() {
    local pid child
    "$dlock" run --ttl 6s a -- sh -c 'trap "date +%s%3N >>told" TERM; echo $$
        while :; do date +%s%3N >>alive; sleep 0.05; done' >child 2>loss &
    pid=$!
    child=$(started child)
    "$DLOCK_BIN/cli_stall" "$PWD/locks.db" 12 >stall &
    started stall
    exit_of "$pid"
    equal 70 "$code" "exit code"
    gone "$child"
    [ -s told ] || die "no SIGTERM came"
    lasted 900 $(($(tail -1 alive) - $(head -1 told))) 3000 "ms from SIGTERM to SIGKILL"
    grep -q 'not renewed in time' loss || die "$(cat loss)"
}

dlock_killed_takes_the_command_along() {
    local pid child
    "$dlock" run --ttl 1s a -- sh -c 'echo $$; exec sleep 100' >child &
    pid=$!
    child=$(started child)
    kill -KILL "$pid"
    within 20 gone "$child"
}

dlock_killed_with_warn_leaves_it() {
    local pid child
    "$dlock" run --ttl 1s --on-lost warn a -- sh -c 'echo $$; exec sleep 100' >child &
    pid=$!
    child=$(started child)
    kill -KILL "$pid"
    wait "$pid" || true
    sleep 0.2
    alive "$child"
    kill -KILL "$child"
}

both_sides_log_a_break() {
    local pid token
    "$dlock" -v -v run --ttl 2s a -- sleep 100 2>holder &
    pid=$!
    within 20 held a
    token=$("$dlock" --json inspect a | jq -r '.holders[0].owner')
    "$dlock" -v -v break a --owner "$token" --yes 2>breaker
    exit_of "$pid"
    equal 70 "$code" "exit code"
    grep -E "^dlock: 2[0-9T:.-]+Z info: a: broken: owner $token$" breaker || die "$(cat breaker)"
    grep -E "^dlock: 2[0-9T:.-]+Z warning: a: lock lost: it was broken, or the store forgot it; owner $token, fence [0-9]+, held for [0-9.]+ s$" \
        holder || die "$(cat holder)"
}

max_hold_ends_it() {
    local began
    began=$(now_ms)
    exits 70 "$dlock" run --ttl 2s --max-hold 1500ms a -- sleep 30
    lasted 500 $(($(now_ms) - began)) 15000 "time held"
    one_line 'max_hold'
    exits 0 "$dlock" run --nowait a -- true
}

renewed_for_longer_than_the_ttl() {
    exits 4 "$dlock" run --ttl 1500ms a -- sh -c 'sleep 4; exit 4'
    equal "" "$(cat err)" "standard error"
}

shows "break: the command is gone before the ttl is over, and dlock exits 70" break_ends_the_command
shows "loss: a command that ignores SIGTERM is killed" break_kills_what_ignores_sigterm
shows "loss: so are its children" break_reaches_the_whole_group
shows "loss: the command has time to clean up; its exit code 0 does not count" the_command_may_clean_up
shows "loss: a stopped command is woken to clean up" a_stopped_command_may_clean_up_too
shows "loss with --on-lost warn: one line, and the command runs on" warn_lets_it_run
shows "loss that nobody noticed before the release still exits 70" lost_just_before_the_end
shows "loss by silence: SIGTERM at two thirds of the ttl, SIGKILL before its end" \
    silence_ends_it_before_the_lease
shows "SIGKILL of dlock takes the command along" dlock_killed_takes_the_command_along
shows "SIGKILL of dlock with --on-lost warn leaves the command" dlock_killed_with_warn_leaves_it
shows "a break is logged by both sides: time, level, name, owner" both_sides_log_a_break
shows "--max-hold ends the command" max_hold_ends_it
shows "a short lease is renewed for as long as the command runs (C14)" renewed_for_longer_than_the_ttl
tap_end
