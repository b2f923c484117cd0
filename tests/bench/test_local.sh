#!/bin/bash
# Does dlock-bench-local run all its cases and print numbers for them, as a table and as JSON?
#
#     test_local.sh PROGRAM
set -u
program=$1
# shellcheck source=tests/tap.sh
. "${0%/*}/../tap.sh"

export TMPDIR=$tap_tmp
json=$tap_tmp/json

says() {
    jq -e "$1" "$json"
}

leaves_nothing() {
    ! compgen -G "$tap_tmp/dlock-bench.*"
}

# ends STATUS OPTION...
ends() {
    local wanted=$1
    shift
    "$program" "$@"
    same "$wanted" "$?"
}

table_shows() {
    "$program" --rounds 1 --duration 20 --only "8 processes" >"$tap_tmp/table" &&
        grep -E "$1" "$tap_tmp/table"
}

check "it runs all cases" "$program" --rounds 2 --duration 20 --json
cp "$tap_tmp/log" "$json"
check "13 cases and 10 targets" says '(.cases | length) == 13 and (.targets | length) == 10'
check "every case did something" says 'all(.cases[]; .pairs_per_s.min > 0 and .p50_us.min > 0)'
check "percentiles are in order" \
    says 'all(.cases[]; .p50_us.max <= .p99_us.max and .p99_us.max <= 1000.001 * .worst_ms.max)'
check "every target but those on allocations was measured and judged" \
    says 'all(.targets[] | select(.text | contains("allocations") | not);
              (.measured.median | type) == "number" and (.met | type) == "boolean")'
check "the median is between the extremes" \
    says 'all(.targets[].measured | select(. != null); .min <= .median and .median <= .max)'
check "a store without contention is fair to its one user" \
    says '.cases[] | select(.name == "memory, 1 thread") | .least_over_most.min == 1'
check "nothing is left behind" leaves_nothing
check "a table with a target" table_shows '^P11 .*>= +0\.80 .* (not )?met$'
check "and without the cases that were left out" table_shows '^sqlite, 8 processes on 8 names '
check_not "which are not there" grep -q 'memory' "$tap_tmp/table"
check "busy processes end with it" \
    ends 0 --rounds 1 --duration 20 --busy 2 --only "condition variables, 8 threads, empty"
check "a directory that is not there is a failure" ends 1 --directory /nowhere
check "an option that is unknown is a usage error" ends 64 --fast
check "a number that is none is a usage error" ends 64 --rounds many
tap_end
