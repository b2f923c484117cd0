#!/bin/bash
# Does scripts/tap-sum.awk count what it says it counts? Programs that end in each way there is are
# run by the real ctest, and its log is added up.
#
#     test_tap_sum.sh SOURCE-DIR
set -u
source_dir=$1
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"

# program NAME: a test program from the shell commands on standard input.
program() {
    printf '#!/bin/bash\nulimit -c 0\n%s\n' "$(cat)" >"$tap_tmp/$1"
    chmod +x "$tap_tmp/$1"
}

# sum_of NAME...: the last line for a run of these programs.
sum_of() {
    local name
    rm -rf "$tap_tmp/run"
    mkdir "$tap_tmp/run"
    for name in "$@"; do
        printf 'add_test([=[%s]=] "%s")\n' "$name" "$tap_tmp/$name"
        printf 'set_tests_properties([=[%s]=] PROPERTIES TIMEOUT 2)\n' "$name"
    done >"$tap_tmp/run/CTestTestfile.cmake"
    ctest --test-dir "$tap_tmp/run" -j 4 >/dev/null 2>&1
    awk -f "$source_dir/scripts/tap-sum.awk" "$tap_tmp/run/Testing/Temporary/LastTest.log" |
        tail -n 1
}

# counts TEXT WANTED NAME...
counts() {
    local text=$1 wanted=$2
    shift 2
    check "$text" same "$wanted" "$(sum_of "$@")"
}

program good <<<'printf "TAP version 13\n1..2\nok 1 - a\nok 2\n"'
program plan_last <<<'printf "ok 1 - a\nok 2\n1..2\n"'
program criterion <<<'printf "TAP version 13\n1..2\n# C\nok - a::b  (0.00s)\nok - a::c  # SKIP why\n"'
program no_newline <<<'printf "1..1\nok 1 - a"'
program talkative <<<'printf "hello\nokay then\n1..1\n  not ok 1 - inner\nokay\nok 1 - a\nnot okay\n"'
program not_ok <<<'printf "1..2\nok 1\nnot ok 2 - b\n"; exit 1'
program not_ok_exit_0 <<<'printf "1..2\nok 1\nnot ok 2 - b\n"'
program exit_3 <<<'printf "1..1\nok 1\n"; exit 3'
program crash_late <<<'printf "1..1\nok 1\n"; kill -SEGV $$'
program crash_early <<<'printf "1..3\nok 1\n"; kill -ABRT $$'
program silent <<<'exit 0'
program no_plan <<<'printf "ok 1\n"'
program two_plans <<<'printf "1..1\nok 1\n1..1\n"'
program short <<<'printf "1..5\nok 1\nok 2\n"'
program long <<<'printf "1..1\nok 1\nok 2\n"'
program empty <<<'printf "1..0\n"'
program skip_one <<<'printf "1..2\nok 1 # skip no server\nok 2\n"'
program skip_all <<<'printf "1..0 # SKIP no server\n"'
program todo <<<'printf "1..1\nok 1 # TODO later\n"'
program bail <<<'printf "1..1\nok 1\nBail out! no disk\n"'
program unjudged <<<'printf "1..3\nok 1 - a\nok 2 - b # void 900 ms\n# void: 800 ms\nok 3\n"'
program hang <<<'printf "1..1\nok 1\n"; sleep 60'

counts "lines of all programs add up" "5 passed, 0 failed, 0 skipped, 0 void" good plan_last no_newline
counts "a skip is counted apart" "1 passed, 0 failed, 1 skipped, 0 void" skip_one
counts "a skipped program is counted apart" "2 passed, 0 failed, 1 skipped, 0 void" skip_all good
counts "Criterion's lines count" "1 passed, 0 failed, 1 skipped, 0 void" criterion
counts "only lines of TAP count" "1 passed, 0 failed, 0 skipped, 0 void" talkative
counts "a failing line counts once" "1 passed, 1 failed, 0 skipped, 0 void" not_ok
counts "a failing line counts whatever the exit code" "1 passed, 1 failed, 0 skipped, 0 void" not_ok_exit_0
counts "an exit code counts whatever the lines" "1 passed, 1 failed, 0 skipped, 0 void" exit_3
counts "a crash after the last line counts" "1 passed, 1 failed, 0 skipped, 0 void" crash_late
counts "a crash fails each test without a line" "1 passed, 2 failed, 0 skipped, 0 void" crash_early
counts "a time limit counts" "1 passed, 1 failed, 0 skipped, 0 void" hang
counts "a program that says nothing failed" "0 passed, 1 failed, 0 skipped, 0 void" silent
counts "a missing plan counts" "1 passed, 1 failed, 0 skipped, 0 void" no_plan
counts "a second plan counts" "1 passed, 1 failed, 0 skipped, 0 void" two_plans
counts "fewer lines than planned count" "2 passed, 3 failed, 0 skipped, 0 void" short
counts "more lines than planned count" "2 passed, 1 failed, 0 skipped, 0 void" long
counts "an empty plan counts" "0 passed, 1 failed, 0 skipped, 0 void" empty
counts "a bound that could not be judged is counted apart" "2 passed, 0 failed, 0 skipped, 2 void" unjudged
counts "a TODO counts" "0 passed, 1 failed, 0 skipped, 0 void" todo
counts "Bail out! counts" "1 passed, 1 failed, 0 skipped, 0 void" bail
counts "a program that is not there counts" "2 passed, 1 failed, 0 skipped, 0 void" missing good
counts "a run without programs failed" "0 passed, 1 failed, 0 skipped, 0 void"
counts "one bad program among good ones shows" "4 passed, 1 failed, 1 skipped, 0 void" \
    good skip_one not_ok
tap_end
