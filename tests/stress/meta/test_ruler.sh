#!/bin/bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317 # functions are called by name
# Does a slow machine make no test fail, and a late answer the right one?
#
#     test_ruler.sh SOURCE-DIR SLOW-MACHINE [TEST...]
#
# SLOW-MACHINE: the program. TEST: programs that are run on a slow machine, beside the few that always are;
# late answers are tried on a busy machine, too, then.
set -u
source_dir=$1 bin=${2%/*}
shift 2
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
# shellcheck source=tests/kit/ruler/ruler.sh
. "$source_dir/tests/kit/ruler/ruler.sh"
ruler_begin "$bin"
export DLOCK_BIN=$bin

# slow COMMAND...: on a slow machine, until it was stopped twice at least.
slow() {
    local seed stops=0
    for seed in {1..9}; do
        "$bin/slow_machine" "$seed" "$@" >"$tap_tmp/out" 2>&1 || {
            cat "$tap_tmp/out"
            echo "again: $bin/slow_machine $seed $*"
            return 1
        }
        stops=$((stops + $(sed -n 's/^# slow_machine: \([0-9]*\) stops.*/\1/p' "$tap_tmp/out")))
        [ "$stops" -lt 2 ] || return 0
    done
    echo "it was stopped $stops times"
    return 1
}

cases_on_sqlite() {
    slow "$bin/dlock-conformance" --only "$1" "sqlite://{tmp}/locks.db"
}

# answers_late PORT: a case in which the store is asked for an answer within 100 ms, and gives it after 600.
answers_late() {
    local address answer
    coproc proxy { exec "$bin/dlock-faultproxy" --to "127.0.0.1:$1" --framing resp; }
    read -r _ address <&"${proxy[0]}"
    echo "delay s2c 600" >&"${proxy[1]}"
    read -r answer <&"${proxy[0]}"
    echo "$address: $answer"
    "$bin/dlock-conformance" --strict --only time_of_a_wait "redis://$address?restart_guard=0"
}

# late_is_seen: that case, and nothing else, is the one that fails, and says how late.
late_is_seen() {
    ! "$bin/with_server" redis -- bash -c "bin=$bin; $(declare -f answers_late); answers_late {port}" >"$tap_tmp/out" 2>&1 &&
        grep -E 'not ok 1 .* time_of_a_wait ' "$tap_tmp/out" &&
        grep -E 'a wait of 0 ms, the best of 10: [0-9]+ ms, of which the machine took [0-9]+; at most 100' "$tap_tmp/out"
}

busy() {
    local loops=() status=0
    for _ in $(seq "$(nproc)"); do
        while :; do :; done &
        loops+=($!)
    done
    "$@" || status=$?
    kill "${loops[@]}"
    wait "${loops[@]}" 2>/dev/null
    return "$status"
}

# No machine takes four seconds of five without a stop.
late_in_a_script() {
    sleep 0.3
    ! lasted 0 5000 100 && lasted 0 50 100 && ! lasted 60 50 100
}

# A program stands for the ruler: the machine took more than the bound.
void_in_python() {
    printf '%s\n' '#!/bin/sh' '[ "$1" = watch ] || { echo "200 ms, of which the machine took 150; at most 0"; exit 79; }' \
        >"$tap_tmp/void-ruler"
    chmod +x "$tap_tmp/void-ruler"
    (cd "$source_dir/tests/bindings" && DLT_RULER=$tap_tmp/void-ruler python3 -B -c \
        'import tap, time; w = tap.Within(0); time.sleep(0.01); w.check(); w.check()') >"$tap_tmp/out" &&
        same "# void: 200 ms, of which the machine took 150; at most 0" "$(cat "$tap_tmp/out")"
}

# A bound that was void says nothing of the next test.
void_of_another_test() {
    (
        tap_count=0
        rm -f "$tap_tmp/void"
        : >"$tap_tmp/log"
        echo "it was void" >"$tap_tmp/void"
        tap_result 1 "fails"
        tap_result 0 "passes"
    ) >"$tap_tmp/out"
    rm -f "$tap_tmp/void"
    grep -x 'ok 2 - passes' "$tap_tmp/out"
}

failure_speaks() {
    ! "$bin/with_server" redis -- false >"$tap_tmp/out" 2>&1 &&
        grep -E '^# status 1 after [0-9]+ ms, of which the machine took [0-9]+$' "$tap_tmp/out" &&
        grep -E '^# the end of .*/log:$' "$tap_tmp/out" && grep -E '^#   [0-9]+:[CM] ' "$tap_tmp/out" &&
        [ -z "$("$bin/with_server" redis -- true 2>&1)" ]
}

failure_says_how_to_repeat_it() {
    printf '%s\n' '1/1 Testing: test_x' 'Output:' '1..1' 'not ok 1 - a' '<end of output>' 'Test Failed.' >"$tap_tmp/run"
    awk -v preset=asan -f "$source_dir/scripts/tap-sum.awk" "$tap_tmp/run" | grep -x ' *again: scripts/test asan -t test_x'
}

check "a script: what is late fails, and what is early" late_in_a_script
rm -f "$tap_tmp/void"
check "a void bound in Python is told" void_in_python
check "a void bound is that of its test alone" void_of_another_test
check "a slow machine: losses, by conformance" cases_on_sqlite 'loss_*'
check "... times, by conformance" cases_on_sqlite 'time_of_*'
check "... the command" slow "$source_dir/tests/cli/data.sh"
check "an answer that comes late fails the case that judges it" late_is_seen
check "a failure shows what the machine took, and what the server said" failure_speaks
check "... and the command that repeats it" failure_says_how_to_repeat_it
for test in "$@"; do
    check "a slow machine: ${test##*/}" slow "$test"
done
[ $# -eq 0 ] || check "a busy machine: an answer that comes late fails the case that judges it" busy late_is_seen
tap_end
