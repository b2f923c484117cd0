# shellcheck shell=bash
# Second runs of test programs that failed beside others, for scripts/test; sourced. docs/testing.md
# says which programs get one, and why.

# At most so many programs of a build.
unsteady_most=3

# Programs with these labels do not depend on the time that other programs leave them, or judge
# whether two hold a lock at one time.
unsteady_never='^(bindings|docs|fuzz|headers|loader|meta|sim|torture|unit)$'

# failed_list LOG: the file in which ctest writes what failed.
failed_list() {
    echo "${1%/*}/LastTestsFailed.log"
}

# failed_programs LOG: the names of the programs, a line each.
failed_programs() {
    cut -d : -f 2 "$(failed_list "$1")" 2>/dev/null
}

# may_be_unsteady PRESET LOG: whether all that failed is a few tests of real servers that ended by
# themselves: no crash, no time limit, no report of a sanitizer, and no case of the clauses C1, C3,
# C6 (exclusion, expired successes, fencing tokens), CRASH_SAFE or the failover guard. The log is
# kept as LastTest-first.log.
may_be_unsteady() {
    local name names failures
    mapfile -t names < <(failed_programs "$2")
    [ "${#names[@]}" -ge 1 ] && [ "${#names[@]}" -le "$unsteady_most" ] || return 1
    cp "$2" "${2%.log}-first.log" # each ctest begins a log of its own
    failures=$(awk -f scripts/tap-sum.awk "$2" | grep '^FAIL ')
    ! grep -qvE '^FAIL [^ ]+: not ok ' <<<"$failures" || return 1
    ! grep -qE 'C[136]_|CRASH_SAFE|FO_[0-9]|CRASH!|TIMEOUT' <<<"$failures" || return 1
    ! grep -qE '(ERROR|WARNING|SUMMARY): [A-Za-z]+Sanitizer|runtime error:' "$2" || return 1
    for name in "${names[@]}"; do
        ctest --preset "$1" -N -R "^$name\$" -LE "$unsteady_never" 2>/dev/null |
            grep -q '^Total Tests: 1$' || return 1
    done
}

# passes_alone PRESET LOG LAUNCHER...: runs the programs that failed again, one after the other,
# and says whether all tests of all of them passed; if so, they are added to the array unsteady.
passes_alone() {
    local name names
    mapfile -t names < <(failed_programs "$2")
    say "$1: ${names[*]}: again, alone"
    "${@:3}" ctest --preset "$1" --timeout 180 --rerun-failed -j 1 >&2 || return 1
    [ "$(awk -f scripts/tap-sum.awk "$2" | grep -c '^FAIL ')" -eq 0 ] || return 1
    for name in "${names[@]}"; do
        unsteady+=("$1 $name: failed beside other programs, passed alone")
    done
}
