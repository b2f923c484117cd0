#!/bin/bash
# Does a defect fail its test in the sanitizer builds, with the environment in which ctest runs the
# tests (CMakePresets.json)? Plants one of each kind and wants each program stopped with the right
# report.
#
#     test_sanitizers.sh SOURCE-DIR address|thread BIN-DIR
set -u
source_dir=$1 kind=$2 bin=$3
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
ulimit -c 0

# caught REPORT COMMAND...: fails, after printing REPORT.
caught() {
    local report=$1
    shift
    if "$@" >"$tap_tmp/out" 2>&1; then
        echo "exit code 0:"
        cat "$tap_tmp/out"
        return 1
    fi
    grep -qF "$report" "$tap_tmp/out" && return 0
    echo "failed without the report '$report':"
    cat "$tap_tmp/out"
    return 1
}

# starts_always COMMAND...: 20 times, because address randomisation may stop a runtime now and then.
starts_always() {
    local i
    for i in {1..20}; do
        "$@" && continue
        echo "failed at start $i: run the tests with scripts/test, which sees to address randomisation"
        return 1
    done
}

case $kind in
address)
    check "a clean program passes" starts_always "$bin/plant" clean
    check "a leak is caught" caught "LeakSanitizer: detected memory leaks" "$bin/plant" leak
    check "a use after free is caught" caught "heap-use-after-free" "$bin/plant" use-after-free
    check "undefined behaviour is caught" caught "signed integer overflow" "$bin/plant" undefined
    # Criterion reports the leaking test as passed; that its program exits with 1 is what counts.
    check "a clean Criterion program passes" "$bin/plant_criterion" --quiet --filter 'clean/*'
    check_not "a leak in a Criterion test is caught" "$bin/plant_criterion" --quiet
    ;;
thread)
    check "a clean program passes" starts_always "$bin/plant" clean
    check "a race is caught" caught "ThreadSanitizer: data race" "$bin/plant" race
    ;;
*)
    echo "Bail out! unknown kind $kind"
    ;;
esac
tap_end
