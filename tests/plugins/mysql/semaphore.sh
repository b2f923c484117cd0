#!/bin/bash
# SPDX-License-Identifier: MIT
# semaphore.sh SOURCE-DIR BIN-DIR URI: 30 runs with --limit 3, of which three are killed inside (C21): never
# more than three are inside, no permit is held twice, and all others have their turn.
set -u
source_dir=$1 dlock=$2/dlock uri=$3
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
cd "$tap_tmp" || exit 1
mkdir in
job=$source_dir/tests/cli/permit_job

# The three jobs inside, each with its dlock.
three_are_killed() {
    local name pid
    for _ in {1..600}; do
        [ "$(wc -l 2>/dev/null <fences)" = 3 ] && break
        sleep 0.1
    done
    for name in in/*; do
        pid=${name##*.}
        kill -KILL "$(ps -o ppid= -p "$pid" | tr -d ' ')" "$pid" && rmdir "$name" || return
    done
}

thirty_runs() {
    local pids=() failed=0
    for _ in {1..3}; do
        "$dlock" -u "$uri" run --ttl 2s --limit 3 j -- "$job" 30 &
        pids+=($!)
    done
    three_are_killed || return
    for _ in {1..27}; do
        "$dlock" -u "$uri" run --ttl 2s --limit 3 j -- "$job" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=$((failed + 1))
    done
    same 3 "$failed" && same "" "$(cat bad 2>/dev/null)" && same 30 "$(sort -un fences | wc -l)"
}

check "C21 30 runs of a semaphore of three, of which three are killed" thirty_runs
tap_end
