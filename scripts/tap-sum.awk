# tap-sum.awk - adds up what the test programs of one ctest run said.
#
#     awk -f scripts/tap-sum.awk build/dev/Testing/Temporary/LastTest.log
#
# Prints a line for each thing that counts as failed, and with -v preset=NAME the command that repeats
# the program, then "N passed, N failed, N skipped, N void". Void
# are bounds of time that the machine was too slow to judge (tests/kit/ruler/ruler.h): tests of their
# own ("ok 1 - x # void ..."), which do not count as passed, or comments ("# void: ..."). Every
# program has to print TAP. Failed are, besides its "not ok" lines: each test that its plan announced
# and that printed no line; a program that prints no plan, two of them, an empty one, more lines than
# planned, "Bail out!" or a TODO; and a program that ctest does not call passed (crash, time limit,
# exit code, not found) although its lines look fine. A log without any program is a failure.

function fail(count, what) {
    failed += count
    program_failed += count
    printf "FAIL %s: %s\n", program, what
}

function begin_program(name) {
    end_program()
    program = name
    programs++
    program_failed = seen = plans = planned = skip_all = passed_ctest = in_output = 0
}

function end_program(    missing) {
    if (program == "")
        return
    missing = planned - seen
    if (plans == 0)
        fail(1, "no plan")
    else if (plans > 1)
        fail(1, plans " plans")
    else if (skip_all && seen == 0)
        skipped++
    else if (planned == 0)
        fail(1, "an empty plan")
    else if (missing > 0)
        fail(missing, seen " of " planned " tests reported")
    else if (missing < 0)
        fail(1, seen " tests reported, " planned " planned")
    if (!passed_ctest && program_failed == 0)
        fail(1, "ctest says failed: exit code, crash or time limit")
    if (program_failed > 0 && preset != "")
        printf "     again: scripts/test %s -t %s\n", preset, program
    program = ""
}

function tap(line) {
    if (line ~ /^1\.\.[0-9]+/) {
        plans++
        planned = substr(line, 4) + 0
        skip_all = planned == 0 && tolower(line) ~ /#[ \t]*skip/
    } else if (line ~ /^Bail out!/) {
        fail(1, line)
    } else if (line ~ /^not ok([^A-Za-z0-9_]|$)/) {
        seen++
        fail(1, line)
    } else if (line ~ /^ok([^A-Za-z0-9_]|$)/) {
        seen++
        if (tolower(line) ~ /#[ \t]*todo/)
            fail(1, line)
        else if (tolower(line) ~ /#[ \t]*skip/)
            skipped++
        else if (line ~ /# void /)
            unjudged++
        else
            passed++
    } else if (line ~ /^# void: /) {
        unjudged++
    }
}

!in_output && /^[0-9]+\/[0-9]+ Testing: / {
    sub(/^[0-9]+\/[0-9]+ Testing: /, "")
    begin_program($0)
    next
}
!in_output && program != "" && $0 == "Output:" {
    in_output = 1
    next
}
!in_output && $0 == "Test Passed." {
    passed_ctest = 1
}
in_output {
    last = sub(/<end of output>$/, "")
    tap($0)
    if (last)
        in_output = 0
}

END {
    end_program()
    if (programs == 0) {
        program = "the run"
        fail(1, "no test programs")
    }
    printf "%d passed, %d failed, %d skipped, %d void\n", passed, failed, skipped, unjudged
}
