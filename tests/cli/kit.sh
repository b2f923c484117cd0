# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# kit.sh - on top of tap.sh, what tests of the command need: each test is a function and runs in a
# subshell with a directory and a store ($store, also DLOCK_URI) of its own.
#
#     DLOCK_BIN    directory of the programs, absolute; default: build/dev/bin
#     DLOCK_LIGHT  1: fewer rounds (sanitizers)
#     CLI_HALF     directory of the plugin dlock_half.so
#
# A test ends at its first failing command. What it printed is shown only if it failed. Processes
# that it left in the background are ended by their numbers.

: "${DLOCK_BIN:=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../build/dev/bin")}"
: "${CLI_HALF:=$DLOCK_BIN/../tests/cli/half}"
export CLI_HALF
export light=${DLOCK_LIGHT:-0} store
dlock=$DLOCK_BIN/dlock

# shellcheck source=tests/kit/tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/../kit/tap.sh"
# shellcheck source=tests/kit/ruler/ruler.sh
. "$(dirname "${BASH_SOURCE[0]}")/../kit/ruler/ruler.sh"
ruler_begin "$DLOCK_BIN"

die() {
    printf '%s\n' "$*" >&2
    exit 1
}

# Commands without which nothing can be shown: a missing one is a failure.
need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || die "Bail out! $program is not installed"
    done
}

kit_end() {
    local pid
    for pid in $(jobs -p); do
        kill -KILL "$pid" || true
    done
    wait || true
} 2>/dev/null

# try FUNCTION: runs it once
try() {
    local dir
    rm -f "$tap_tmp/void"
    dir=$(mktemp -d "$tap_tmp/XXXXXX") || die "Bail out! no directory"
    (
        set -eu
        trap kit_end EXIT
        cd "$dir"
        store=sqlite://$PWD/locks.db
        export DLOCK_URI=$store
        unset DLOCK_NAME DLOCK_TOKEN DLOCK_FENCE DLOCK_HELD
        "$1"
    ) >"$tap_tmp/log" 2>&1 </dev/null
}

# shows TEXT FUNCTION: again, up to five times, while the machine is too slow to judge a bound.
shows() {
    local round status
    for round in 1 2 3 4 5; do
        try "$2" # "||" here would switch off its set -e
        status=$?
        if [ "$status" -ne 0 ] || ! [ -e "$tap_tmp/void" ] || [ "$round" -eq 5 ]; then
            break
        fi
    done
    tap_result "$status" "$1"
}

# equal EXPECTED ACTUAL [what]
equal() {
    [ "$1" = "$2" ] || die "${3:-value}: expected '$1', got '$2'"
}

# between LOW VALUE HIGH [what]: numbers; of times: lasted
between() {
    { [ "$2" -ge "$1" ] && [ "$2" -le "$3" ]; } || die "${4:-value}: $2 is not in $1..$3"
}

# exits CODE command...: its standard error goes to the file err, its output to out
exits() {
    local want=$1 got=0
    shift
    timeout --foreground -k 5 60 "$@" >out 2>err || got=$?
    [ "$got" -eq "$want" ] || {
        cat out err
        die "exit code $got, expected $want: $*"
    }
}

# The file err holds exactly one line, it begins with "dlock: ", and it matches $1.
one_line() {
    equal 1 "$(wc -l <err)" "lines on standard error ($(cat err))"
    grep -q '^dlock: ' err || die "no 'dlock:' in front: $(cat err)"
    grep -qE -- "$1" err || die "'$(cat err)' does not match '$1'"
}

# within SECONDS command...: repeats it until it succeeds
within() {
    local start most=$(($1 * 1000))
    start=$(now_ms)
    shift
    until "$@" >/dev/null 2>&1; do
        ! is_late $(($(now_ms) - start)) "$most" || die "did not come true: $*: $ruling"
        sleep 0.02
    done
}

held() {
    "$dlock" -q inspect "$1" >/dev/null
}

is_free() {
    local got=0
    "$dlock" -q inspect "$1" >/dev/null || got=$?
    [ "$got" -eq 1 ]
}

# Alive, and not a zombie.
alive() {
    local state
    state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) &&
        [ -n "$state" ] && [ "$state" != Z ]
}

gone() {
    ! alive "$1"
}

# exit_of PID: waits for a background job, but not for ever; its exit code is in $code
exit_of() {
    within 30 gone "$1"
    export code=0
    wait "$1" || code=$?
}
