#!/bin/bash
# SPDX-License-Identifier: MIT
# Does a test fail in each of these programs, which have a defect each? All run at once.
# usage: guard_mutants.sh SOURCE_DIR SUITE PROGRAM=TEST...
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
suite=$2
shift 2

pids=()
for mutant in "$@"; do
    program=${mutant%=*}
    "$program" --tap=/dev/stdout --quiet --filter "$suite/${mutant#*=}" >"$tap_tmp/${program##*/}" 2>&1 &
    pids+=($!)
done

# fails_on_mutant PID OUTPUT TEST
fails_on_mutant() {
    wait "$1"
    local status=$?
    cat "$2"
    [ "$status" -eq 1 ] && grep -q "^not ok - $suite::$3 " "$2"
}

for mutant in "$@"; do
    program=${mutant%=*}
    check "${mutant#*=} sees ${program##*/}" fails_on_mutant "${pids[0]}" "$tap_tmp/${program##*/}" "${mutant#*=}"
    pids=("${pids[@]:1}")
done
tap_end
