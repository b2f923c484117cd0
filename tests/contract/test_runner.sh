#!/bin/bash
# SPDX-License-Identifier: MIT
# Does the runner of conformance cases see how a case ended, and say so?
# usage: test_runner.sh SOURCE_DIR SAMPLES_PROGRAM DLOCK_CONFORMANCE
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
samples=$2 conformance=$3
store=memory://samples

run() { # run STATUS_WANTED ARGS...: the program's output goes to $tap_tmp/out
    local wanted=$1 got=0
    shift
    "$samples" "$@" >"$tap_tmp/out" 2>"$tap_tmp/err" || got=$?
    same "$wanted" "$got"
}

out_has() {
    cat "$tap_tmp/out" "$tap_tmp/err"
    grep -qE -e "$1" "$tap_tmp/out" "$tap_tmp/err"
}

processes_here() { # that run a case of the samples program: their numbers
    local exe
    for exe in /proc/[0-9]*/exe; do
        [ "$exe" -ef "$samples" ] && tr '\0' ' ' <"${exe%exe}cmdline" 2>/dev/null |
            grep -q -- ' --case ' && echo "${exe//[^0-9]/}"
    done
    true
}

# Who was killed may take a moment to be gone.
none_left() {
    local i
    for ((i = 0; i < 100; i++)); do
        [ -n "$(processes_here)" ] || return 0
        sleep 0.05
    done
    processes_here
    return 1
}

check "the table with failures ends with 1" run 1 "$store"
check "the plan is first" out_has '^1\.\.11$'
check "a case that returns has passed" out_has '^ok 1 - memory://samples passes \[C1\]'
check "a failed check is told, with its place" out_has '^# samples\.c:[0-9]+: a # in the reason'
check "and what the case wanted" out_has '^# wanted: It does not fail\.$'
check "a wrong status is told by its name" \
    out_has 'dlock_unlock\(lock, &dlt_err\) is NOT_HELD, want OK'
check "a skip at run time shows its reason" \
    out_has '^ok 4 - memory://samples skips \[C4\] # SKIP no \? reason$'
check "a case without an end is ended" out_has '^# no end after [1-9][0-9]{3,4} ms'
check "what it printed before is shown" out_has '^# this is where it hangs'
check "a crash is told" out_has '^# ended by signal 6'
check "another exit status is told" out_has '^# exit status 3'
check "a missing capability is named" out_has '# SKIP no SESSION$'
check "processes on a private store are skipped" \
    out_has '# SKIP the store lives in one process$'
check "output of a case is no result" same 11 "$(grep -cE '^(not )?ok ' "$tap_tmp/out")"
check "the sums are right" out_has '^# passed 2, failed 5, skipped 3$'
check "a bound that a slow machine kept from being judged is void, with the numbers" \
    out_has '^ok 10 - memory://samples is_never_judged \[C9\] # void took 900 ms, of which'
check "and counts neither as passed nor as failed" out_has '^# void 1: '
check "nothing that a case started is left" none_left

check "a table that passes ends with 0" run 0 --only passes "$store"
check "a clause selects its cases" run 1 --only C2 "$store"
check "and only those" out_has '^1\.\.2$'
check "a pattern selects by name" run 0 --only 'needs_*' "$store"
check "a pattern without a case is a mistake in use" run 64 --only 'nothing*' "$store"
check "no URI is a mistake in use" run 64
check "an unknown option, too" run 64 --nonsense "$store"
check "an unknown capability, too" run 64 --expect FENCE,NONSENSE "$store"
check "a bad step of the store's clock, too" run 64 --grid -1 "$store"
check "a bad number, too" run 64 -j 0 "$store"
check "a store that does not open is a failure" run 1 --only passes nonsense://x "$store"
check "it has a line of its own" out_has '^not ok 1 - nonsense: opens$'
check "the other stores still run" out_has '^ok 2 - memory://samples passes'
check "several stores have a table below" out_has '^# C1 .* ok 1'
check "a password is not shown" run 1 "mysql://u:hunter2@127.0.0.1:1/d"
check "nowhere" same 0 "$(cat "$tap_tmp/out" "$tap_tmp/err" | grep -c hunter2)"
check "as a table, failures end with 1" run 1 --format table "$store"
check "it has a line a clause" out_has '^C1 +ok 1'
check "and says what failed" out_has '^C2 +FAILED 2 of 2'
check "and what does not apply, and every reason" out_has '^C8 +not \(2 3\)$'
check "in full below it, with how many cases" out_has '^\(2\) no SESSION: 1 of \[1\]$'
check "as long as it is" out_has '^\(3\) the store lives in one process: 1 of \[1\]$'
check "with the reason below it" out_has '^# samples\.c:[0-9]+: a # in the reason'
check "as JSON, failures end with 1" run 1 --format json "$store"
check "it can be read" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$tap_tmp/out"
check "and has a result a case" same 11 "$(grep -c '"case": ' "$tap_tmp/out")"
check "another form is a mistake in use" run 64 --format xml "$store"
check "--list runs nothing and ends with 0" run 0 --list
check "and names needs" out_has 'needs_much +\[C8\] needs FENCE,SESSION$'

check "and says in a sentence what a case does" out_has '^    It passes\.$'

# --- one case, for a debugger ---

check "--debug runs a case in the foreground" run 0 --debug passes "$store"
check "and says what the case wants" out_has '^passes \[C1\]: It passes\.$'
check "its failure ends with 1" run 1 --debug fails "$store"
check "and is told as it comes" out_has '^samples\.c:[0-9]+: a # in the reason'
check "a case that needs more is skipped" run 77 --debug needs_much "$store"
check "and the reason is told" out_has '^skipped: no SESSION$'
check "a case of processes, too, where the store is private" run 77 --debug needs_processes "$store"
check "no such case is a mistake in use" run 64 --debug nothing "$store"
check "two stores, too" run 64 --debug passes "$store" "$store"

# The runner would end it after 1 s, and say so.
no_limit() {
    timeout 4 "$samples" --debug hangs "$store" >"$tap_tmp/out" 2>&1
    same 124 $? && out_has '^this is where it hangs'
}
check "it has no time limit" no_limit

# --- calls of slots ---

traced() {
    "$conformance" --trace --only exclusion_handles "$store" >"$tap_tmp/out"
}
check "--trace passes" traced
check "it shows each call, in the output of its case" \
    out_has '^# dlock-trace [0-9/]+ [0-9.]+ memory trylock [0-9a-f]{6} .* -> BUSY '
check "with a token of four bytes" out_has 'token=[0-9a-f]{8}\.\.'
check "and never all of it" same 0 "$(grep -cE '[0-9a-f]{20}' "$tap_tmp/out")"

traced_failure() {
    "$conformance" --trace --debug exclusion_handles "redis://u:hunter2@127.0.0.1:1" \
        >"$tap_tmp/out" 2>"$tap_tmp/err"
    same 1 $?
}
check "a store that does not answer fails" traced_failure
check "which the trace shows" out_has 'redis open [0-9a-f]{6} redis: 127\.0\.0\.1:1 .* -> UNAVAILABLE '
check "without the password" same 0 "$(cat "$tap_tmp/out" "$tap_tmp/err" | grep -c hunter2)"

# --- directories and signals ---

TMPDIR=$tap_tmp
export TMPDIR
check "{tmp} is a new directory" run 1 "nonsense://{tmp}/x"
check "which is gone afterwards" same "" "$(find "$tap_tmp" -name 'dlock-conformance-*')"

# With this slack hangs may run for 100 s: a signal comes before it ends.
interrupted() {
    "$samples" --slack 10000 --only hangs "memory://samples" "nonsense://{tmp}/x" >"$tap_tmp/out" &
    local runner=$! i
    for ((i = 0; i < 200; i++)); do
        [ -z "$(processes_here)" ] || break
        sleep 0.05
    done
    kill -TERM "$runner"
    wait "$runner"
    same 143 $?
}
check "a signal ends it" interrupted
check "and what it ran" none_left
check "and removes its directory" same "" "$(find "$tap_tmp" -name 'dlock-conformance-*')"
tap_end
