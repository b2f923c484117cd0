#!/bin/bash
# SPDX-License-Identifier: MIT
# Does test_redis_cluster_guard fail in each of these programs, which have a defect each, and say the
# clause? All run at once: they wait most of the time.
# usage: cluster_mutants.sh SOURCE_DIR PROGRAM=CASE=CLAUSE...
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
shift

pids=()
for mutant in "$@"; do
    IFS='=' read -r program case _ <<<"$mutant"
    "$program" "$case" >"$tap_tmp/${program##*/}" 2>&1 &
    pids+=($!)
done

# fails_for PID OUTPUT CLAUSE
fails_for() {
    wait "$1"
    local status=$?
    cat "$2"
    [ "$status" -eq 1 ] && grep -q "^not ok [0-9]* - $3 " "$2"
}

for mutant in "$@"; do
    IFS='=' read -r program case clause <<<"$mutant"
    check "$case sees ${program##*/}" fails_for "${pids[0]}" "$tap_tmp/${program##*/}" "$clause"
    pids=("${pids[@]:1}")
done
tap_end
