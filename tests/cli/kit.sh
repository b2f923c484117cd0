# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# kit.sh - a small test kit for the command: each test is a function, runs in a subshell with a
# directory and a store of its own, and becomes one line of TAP.
#
#     DLOCK_BIN    directory of the programs, absolute
#     DLOCK_LIGHT  1: fewer rounds (sanitizers)
#
# A test ends at its first failing command. What it printed is shown only if it failed. Processes
# that it left in the background are ended by their numbers.

: "${DLOCK_BIN:?the directory of the programs}"
export light=${DLOCK_LIGHT:-0}
dlock=$DLOCK_BIN/dlock
kit_count=0
kit_failed=0
kit_root=$(mktemp -d "${TMPDIR:-/tmp}/dlock-cli.XXXXXXXX") || exit 1
trap 'rm -rf "$kit_root"' EXIT

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
        kill -KILL "$pid" 2>/dev/null
    done
    wait
} 2>/dev/null

# check "what it shows" function
check() {
    local log=$kit_root/log rc
    kit_count=$((kit_count + 1))
    mkdir -p "$kit_root/$kit_count"
    (
        set -eu
        trap kit_end EXIT
        cd "$kit_root/$kit_count"
        export DLOCK_URI="sqlite://$PWD/locks.db"
        unset DLOCK_NAME DLOCK_TOKEN DLOCK_FENCE DLOCK_HELD
        "$2"
    ) >"$log" 2>&1 </dev/null
    rc=$?
    if [ "$rc" -eq 0 ]; then
        printf 'ok %d - %s\n' "$kit_count" "$1"
    else
        printf 'not ok %d - %s\n# exit %d\n' "$kit_count" "$1" "$rc"
        sed 's/^/# /' "$log"
        kit_failed=$((kit_failed + 1))
    fi
}

finish() {
    printf '1..%d\n' "$kit_count"
    [ "$kit_failed" -eq 0 ]
    exit
}

# equal EXPECTED ACTUAL [what]
equal() {
    [ "$1" = "$2" ] || die "${3:-value}: expected '$1', got '$2'"
}

# between LOW VALUE HIGH [what]
between() {
    { [ "$2" -ge "$1" ] && [ "$2" -le "$3" ]; } || die "${4:-value}: $2 is not in $1..$3"
}

# exits CODE command...: its standard error goes to the file err, its output to out
exits() {
    local want=$1 got=0
    shift
    "$@" >out 2>err || got=$?
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

now_ms() {
    date +%s%3N
}

# within SECONDS command...: repeats it until it succeeds
within() {
    local end=$(($(now_ms) + $1 * 1000))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(now_ms)" -lt "$end" ] || die "did not come true: $*"
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

# exit_of PID: waits for a background job; its exit code is in $code
exit_of() {
    export code=0
    wait "$1" || code=$?
}
