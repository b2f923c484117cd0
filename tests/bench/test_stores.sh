#!/bin/bash
# Does dlock-bench run all workloads of the stores that need no server, and print numbers for them,
# as tables, JSON and CSV?
#
#     test_stores.sh PROGRAM
set -u
program=$1
# shellcheck source=tests/kit/tap.sh
. "${0%/*}/../kit/tap.sh"

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
    "$program" --rounds 1 --duration 200ms --workload names --limits --only sqlite >"$tap_tmp/table" &&
        grep -E "$1" "$tap_tmp/table"
}

rounds_are_lines() {
    same 3 "$(wc -l <"$tap_tmp/csv")"
}

check "it runs all workloads" "$program" --limits --async --rounds 2 --duration 300ms --threads 3 --processes 3 \
    --leases 40 --json "$json"
check "thirteen workloads, those of processes on sqlite only" says \
    '([.cases[] | select(.subject == "sqlite")] | length) == 13 and
     ([.cases[] | select(.subject == "memory")] | length) == 8'
check "every case ran in both rounds" says 'all(.cases[]; .rounds == 2)'
check "a rate, where there are pairs" says \
    'all(.cases[] | select(.load.loop == "pairs"); .pairs_per_s.min > 0)'
check "times, where nobody keeps still" says \
    'all(.cases[] | select(.load.loop != "waiting"); .p50_us.min > 0)'
check "percentiles are in order" says \
    'all(.cases[] | select(.p50_us != null); .p50_us.max <= .p99_us.max and
         .p99_us.max <= .p99_9_us.max and .p99_9_us.max <= 1000.001 * .worst_ms.max)'
check "medians are between the extremes" says \
    '[.cases[][] | objects | select(has("median"))] | all(.[]; .min <= .median and .median <= .max)'
check "processor time and memory, where processes stay" says \
    'all(.cases[] | select(.load.loop | IN("opening", "running", "killed") | not); .own_cpu_us.min > 0 and .memory_mb.min > 0.1)'
check "a program under a lock takes longer than the command alone" says \
    '[.cases[] | select(.workload == "run")] | INDEX(.subject) |
     .sqlite.p50_us.min > .["true, beside SQLite"].p50_us.max and
     .["a program with SQLite"].p50_us.min > .["true, beside SQLite"].p50_us.max'
check "the end of a holder by SIGKILL and a close have times" says \
    'all(.cases[] | select(.workload == "killed" or .workload == "closing"); .p50_us.min > 0)'
check "a limit gives a ratio" says \
    '.cases[] | select(.workload == "alone" and .subject == "sqlite") | .rate_over_limit.median > 0'
check "operations of one thread, where each has a name of its own" says \
    '[.cases[] | select(.subject == "sqlite, dlock_op_start" or .subject == "memory, dlock_op_start") |
      select(.workload == "names" and .least_over_most.min > 0)] | length == 2'
check "and nowhere else" says \
    'all(.cases[] | select(.subject | test("dlock_op_start")); .workload == "names")'
check "leases are counted, and none is lost" says \
    'all(.cases[] | select(.workload == "leases"); .leases_lost.max == 0)'
check "no lock is shared where nobody reads, and a store is fair to its one user" says \
    '.cases[] | select(.subject == "memory" and .workload == "alone") | .jain.min == 1'
check "nothing is left behind" leaves_nothing
check "a table with a ratio" table_shows '^  sqlite +[0-9.]+ [0-9.]+\.\.[0-9.]+ +[0-9.]+ '
check_not "without the cases that were left out" grep -q memory "$tap_tmp/table"
check "a line for each round" "$program" --rounds 2 --duration 200ms --only "alone: memory" \
    --csv "$tap_tmp/csv"
check "and one with names" rounds_are_lines
check "busy processes end with it" ends 0 --rounds 1 --duration 20ms --busy 2 --workload alone
check "a store that cannot be opened is a failure" ends 1 --uri sqlite:///nowhere/x.db --workload alone
check "a directory that is not there is a failure" ends 1 --directory /nowhere
check "no more waiters than there is room for" ends 0 --rounds 1 --duration 20ms --threads 128 \
    --processes 128 --workload waiters --uri "sqlite=sqlite://$tap_tmp/waiters.db?connect_timeout=60s"
check "an option that is unknown is a usage error" ends 64 --fast
check "a workload that is unknown is a usage error" ends 64 --workload lazy
check "a time without a unit is a usage error" ends 64 --duration 5
tap_end
