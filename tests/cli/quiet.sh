#!/bin/bash
# SPDX-License-Identifier: MIT
# What a waiting and a running dlock does: next to nothing, as strace(1) sees it.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq strace

# traced FROM TO: the system calls of the file trace between these times, in seconds since the epoch
traced() {
    awk -v from="$1" -v to="$2" '$2 >= from && $2 <= to' trace
}

# It has begun to wait: nothing was traced for a while.
is_quiet() {
    local before
    before=$(wc -l <trace)
    sleep 0.3
    [ "$before" -gt 100 ] && [ "$(wc -l <trace)" -le $((before + 12)) ]
}

first_waits() {
    "$dlock" --json inspect x >seen && jq -e '.waiters == 1' seen
}

# The first waiter looks whether the holder lives (C23); the others sleep.
waiting_sleeps() {
    local pid from
    "$dlock" run x -- sleep 60 &
    within 20 held x
    "$dlock" run x -- true &
    within 20 first_waits
    strace -f -ttt -o trace "$dlock" run x -- true &
    pid=$!
    within 20 is_quiet
    from=$(date +%s.%N)
    sleep 4.2
    traced "$from" "$(date +%s.%N)" >window
    # Each wake-up of a waiting thread ends a call that sleeps. About one a second is allowed.
    between 0 "$(grep -cE ' (resumed>|futex\(|poll\(|ppoll\(|clock_nanosleep\()' window || true)" 20 \
        "sleeping calls in 4 s: $(head -40 window)"
    # Its place in the queue is refreshed about once a second: two writes to the log, no flush.
    between 0 "$(grep -c pwrite window || true)" 14 "writes in 4 s: $(head -40 window)"
    ! grep -E 'fsync|fdatasync|ftruncate|msync|sendto|sendmsg| write\([0-9]+, "[^\\]' window ||
        die "a waiting process writes more than its place"
    kill -KILL "$pid"
}

running_sleeps() {
    local pid from
    strace -f -ttt -o trace "$dlock" run --ttl 30s x -- sleep 60 &
    pid=$!
    within 20 held x
    within 20 is_quiet
    from=$(date +%s.%N)
    sleep 3
    traced "$from" "$(date +%s.%N)" >window
    between 0 "$(wc -l <window)" 6 "system calls in 3 s: $(cat window)"
    kill -KILL "$pid"
}

shows "waiting behind another: no wake-up and no write more often than about once a second (C13)" \
    waiting_sleeps
shows "running: no wake-up between two renewals" running_sleeps
tap_end
