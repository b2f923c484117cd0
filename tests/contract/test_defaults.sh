#!/bin/bash
# SPDX-License-Identifier: MIT
# Does a server with too few connections for a case skip it with the reason, and fail it with --strict?
# usage: test_defaults.sh SOURCE_DIR DLOCK_CONFORMANCE URI, with 97 connections for users
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
conformance=$2 uri=$3

# fifty STATUS TEXT [OPTION...]
fifty() {
    local status=0 wanted=$1 text=$2
    shift 2
    "$conformance" "$@" --only queue_of_fifty_behind_the_dead "$uri" >"$tap_tmp/out" 2>&1 || status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq "$wanted" ] && grep -qE "$text" "$tap_tmp/out"
}

check "a case that needs more is skipped, and the reason is there" \
    fifty 0 '^ok 1 .* # SKIP this server takes 97 connections: the case needs 106$'
check "a line says so before" grep -qE '^# .*: this server takes 97 connections, and 1 case needs more' "$tap_tmp/out"
check "with --strict it runs, and fails" fifty 1 '^not ok 1 ' --strict
tap_end
