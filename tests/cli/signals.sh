#!/bin/bash
# Tests: cli/signals.c cli/child.c
# SPDX-License-Identifier: MIT
# dlock run and signals: what is handed on, what ends a wait, what the command inherits.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need env

handed_on() {
    local name pid
    for name in INT TERM HUP QUIT USR1 USR2 WINCH; do
        rm -f seen
        # a background job of a plain shell ignores INT and QUIT: undo that
        env --default-signal "$dlock" run x -- bash -c "trap 'echo $name >>seen; exit 9' $name
            echo up >up; while :; do sleep 0.02; done" &
        pid=$!
        within 20 test -s up
        kill -s "$name" "$pid"
        exit_of "$pid"
        equal 9 "$code" "exit code after $name"
        equal "$name" "$(cat seen)"
        rm up
    done
}

to_the_whole_group() {
    local pid
    "$dlock" run x -- bash -c 'trap "wait; exit 3" TERM
        bash -c "trap \"echo inner >>seen; exit\" TERM; echo up >up; while :; do sleep 0.02; done" & wait' &
    pid=$!
    within 20 test -s up
    kill -TERM "$pid"
    exit_of "$pid"
    equal 3 "$code" "exit code"
    equal inner "$(cat seen)"
}

the_command_dies_of_it() {
    local pid
    "$dlock" run x -- sh -c 'echo up >up; exec sleep 30' &
    pid=$!
    within 20 test -s up
    kill -TERM "$pid"
    exit_of "$pid"
    equal 143 "$code" "exit code"
    is_free x
}

end_the_wait() {
    local name pid number began
    "$dlock" run x -- sleep 60 &
    within 20 held x
    for name in INT TERM HUP QUIT USR1; do
        number=$(kill -l "$name")
        env --default-signal "$dlock" run x -- touch ran 2>err &
        pid=$!
        within 20 waits "$pid"
        began=$(now_ms)
        kill -s "$name" "$pid"
        exit_of "$pid"
        equal $((128 + number)) "$code" "exit code after $name"
        lasted 0 $(($(now_ms) - began)) 10000 "time to give up after $name"
        equal "" "$(cat err)"
    done
    [ ! -e ran ]
}

# It has more than one thread, and the acquiring one has gone to sleep.
waits() {
    [ "$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)" -ge 2 ] && sleep 0.2
}

at_any_moment_of_the_start() {
    local i pid rounds=40
    [ "$light" -eq 0 ] || rounds=8
    "$dlock" run x -- sleep 60 &
    within 20 held x
    for ((i = 0; i < rounds; i++)); do
        env --default-signal "$dlock" run x -- touch ran &
        pid=$!
        sleep "0.0$((i % 10))"
        kill -TERM "$pid"
        exit_of "$pid"
        equal 143 "$code" "exit code in round $i"
    done
    [ ! -e ran ]
}

a_waiter_that_left_takes_nothing() {
    local holder pid
    "$dlock" run x -- sh -c 'echo up >up; exec sleep 60' &
    holder=$!
    within 20 test -s up
    "$dlock" run --ttl 30s x -- true &
    pid=$!
    within 20 waits "$pid"
    kill -TERM "$pid"
    exit_of "$pid"
    kill -TERM "$holder"
    exit_of "$holder"
    exits 0 "$dlock" run --nowait x -- true
}

inherited_state() {
    grep -E '^Sig(Blk|Ign)' /proc/self/status >want || true
    exits 0 grep -E '^Sig(Blk|Ign)' /proc/self/status
    mv out want
    exits 0 "$dlock" run x -- grep -E '^Sig(Blk|Ign)' /proc/self/status
    cmp want out || die "$(cat want out)"
    exits 0 env --ignore-signal=PIPE,CHLD,HUP --block-signal=USR1 \
        grep -E '^Sig(Blk|Ign)' /proc/self/status
    mv out want
    exits 0 env --ignore-signal=PIPE,CHLD,HUP --block-signal=USR1 \
        "$dlock" run x -- grep -E '^Sig(Blk|Ign)' /proc/self/status
    cmp want out || die "$(cat want out)"
}

exit_code_with_ignored_sigchld() {
    exits 7 env --ignore-signal=CHLD "$dlock" run x -- sh -c 'exit 7'
}

nohup_is_respected() {
    local pid
    env --ignore-signal=HUP "$dlock" run x -- sh -c 'echo up >up; sleep 0.7; exit 6' &
    pid=$!
    within 20 test -s up
    kill -HUP "$pid"
    exit_of "$pid"
    equal 6 "$code" "exit code"
}

storm() {
    local pid i
    "$dlock" run --ttl 2s x -- bash -c 'trap : USR1; echo up >up; for i in {1..20}; do sleep 0.05; done; exit 8' &
    pid=$!
    within 20 test -s up
    for ((i = 0; i < 300; i++)); do
        kill -USR1 "$pid" 2>/dev/null || break
    done
    exit_of "$pid"
    equal 8 "$code" "exit code"
}

a_stopped_command_obeys() {
    local pid child
    "$dlock" run --ttl 2s x -- sh -c 'echo $$ >up; exec sleep 60' &
    pid=$!
    within 20 test -s up
    child=$(cat up)
    kill -STOP "$child"
    sleep 2.4
    held x || die "the lease was not renewed while the command was stopped"
    kill -TERM "$pid"
    kill -CONT "$pid"
    exit_of "$pid"
    equal 143 "$code" "exit code"
}

shows "signals: INT TERM HUP QUIT USR1 USR2 WINCH are handed on" handed_on
shows "signals: to the command's whole process group" to_the_whole_group
shows "signals: a command that dies of one gives 128+n, and the lock is free" the_command_dies_of_it
shows "signals: end a wait with 128+n, at once and without a word" end_the_wait
shows "signals: end a wait at whatever moment they come" at_any_moment_of_the_start
shows "signals: a waiter that gave up has taken nothing" a_waiter_that_left_takes_nothing
shows "signals: the command inherits mask and ignored signals (C10)" inherited_state
shows "signals: an ignored SIGCHLD does not hide the exit code" exit_code_with_ignored_sigchld
shows "signals: what nohup has ignored stays ignored" nohup_is_respected
shows "signals: a storm of them harms nobody" storm
shows "signals: a stopped command keeps its lock, and SIGCONT is handed on" a_stopped_command_obeys
tap_end
