#!/bin/bash
# SPDX-License-Identifier: MIT
# semaphore.sh SOURCE-DIR BIN-DIR URI [fifo]: 30 runs with --limit 3 on a store (C21): never more than three are
# inside, no permit is held twice, and all have their turn, also if three are killed inside. fifo: in the order of
# the store's queue.
# shellcheck disable=SC2317 # functions are called by name
set -u
source_dir=$1 dlock=$2/dlock fifo=${4-}
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
cd "$tap_tmp" || exit 1
export DLOCK_URI=$3
if [ "$3" = sqlite ]; then DLOCK_URI=sqlite://$tap_tmp/locks.db; fi
job=$source_dir/tests/cli/permit_job
pids=()

# run_job [SECONDS]: in the background.
run_job() {
    "$dlock" run --ttl 3s --limit 3 j -- "$job" "$@" &
    pids+=($!)
}

# within COMMAND...: repeats it for a minute, until it succeeds.
within() {
    local i
    for ((i = 0; i < 1200; i++)); do
        "$@" && return
        sleep 0.05
    done
    echo "did not come true: $*"
    return 1
}

begin() {
    rm -rf in bad fences go
    mkdir in
    : >fences
    pids=()
}

started() {
    [ "$(wc -l <fences)" -ge "$1" ]
}

# all_end FAILED RUNS: so many runs failed, and so many began.
all_end() {
    local failed=0 pid
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=$((failed + 1))
    done
    same "$1" "$failed" && same "" "$(cat bad 2>/dev/null)" && same "$2" "$(sort -un fences | wc -l)"
}

thirty_runs() {
    begin
    for _ in {1..30}; do
        run_job
    done
    all_end 0 30
}

# The three jobs inside, each with its dlock.
three_are_killed() {
    local name pid
    within started 3 || return
    for name in in/*; do
        pid=${name##*.}
        kill -KILL "$(ps -o ppid= -p "$pid" | tr -d ' ')" "$pid" && rmdir "$name" || return
    done
}

thirty_of_which_three_die() {
    begin
    for _ in {1..3}; do
        run_job 60
    done
    three_are_killed || return
    for _ in {1..27}; do
        run_job
    done
    all_end 3 30
}

waiting() {
    [ "$("$dlock" --json inspect j | jq .waiters)" = "$1" ]
}

# Each one arrives when the one before it stands in the queue.
in_order() {
    local i
    begin
    for i in {1..3}; do
        RUN=0 run_job 15
    done
    within started 3 || return
    for i in {1..8}; do
        RUN=$i run_job
        within waiting "$i" || return
    done
    started 4 && echo "the holders have gone too early" && return 1
    all_end 0 11 && same "0 0 0 1 2 3 4 5 6 7 8" "$(sort -n fences | cut -d ' ' -f 2 | xargs)"
}

check "C21 thirty runs of a semaphore of three" thirty_runs
check "C21 thirty runs, of which three are killed" thirty_of_which_three_die
if [ "$fifo" = fifo ]; then
    check "C21 C13 permits are given in the order of arrival" in_order
fi
tap_end
