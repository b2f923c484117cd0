# shellcheck shell=bash
# TAP for test programs written in bash; sourced. A program calls check or check_not for each test
# and ends with tap_end; one that stops half-way prints no plan, which counts as failed.

tap_count=0
tap_failures=0

# A directory of its own, removed at the end.
tap_tmp=$(mktemp -d "${TMPDIR:-/tmp}/dlock-test.XXXXXX") || exit 1
trap 'rm -rf "$tap_tmp"' EXIT

# tap_result STATUS TEXT: one test; its diagnosis is what the file "$tap_tmp/log" holds. A test that
# passed but for bounds that the machine was too slow to judge (ruler/ruler.sh) is void.
tap_result() {
    tap_count=$((tap_count + 1))
    if [ "$1" -eq 0 ] && [ -e "$tap_tmp/void" ]; then
        printf 'ok %d - %s # void %s\n' "$tap_count" "$2" "$(paste -sd ';' "$tap_tmp/void")"
    elif [ "$1" -eq 0 ]; then
        printf 'ok %d - %s\n' "$tap_count" "$2"
    else
        tap_failures=$((tap_failures + 1))
        printf 'not ok %d - %s\n' "$tap_count" "$2"
        sed 's/^/#   /' "$tap_tmp/log"
    fi
    rm -f "$tap_tmp/void"
}

# check TEXT COMMAND...: passes if the command succeeds.
check() {
    local text=$1
    shift
    "$@" >"$tap_tmp/log" 2>&1
    tap_result $? "$text"
}

# check_not TEXT COMMAND...: passes if the command fails.
check_not() {
    local text=$1
    shift
    ! "$@" >"$tap_tmp/log" 2>&1
    tap_result $? "$text"
}

# skip TEXT REASON
skip() {
    tap_count=$((tap_count + 1))
    printf 'ok %d - %s # SKIP %s\n' "$tap_count" "$1" "$2"
}

# same WANTED GOT: for check; shows both when they differ.
same() {
    [ "$1" = "$2" ] && return 0
    printf 'wanted: %s\ngot:    %s\n' "$1" "$2"
    return 1
}

tap_end() {
    printf '1..%d\n' "$tap_count"
    [ "$tap_failures" -eq 0 ]
    exit
}
