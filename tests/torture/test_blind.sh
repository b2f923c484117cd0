#!/bin/bash
# SPDX-License-Identifier: MIT
# Does a run fail whose clients never look at the claims of the others?
# usage: test_blind.sh SOURCE_DIR DLOCK_TORTURE_THAT_IS_BLIND
set -u
# shellcheck source=tests/tap.sh
. "$1/tests/tap.sh"

fails_for_that() {
    "$1" --backend memory --duration 1s >"$tap_tmp/out"
    local status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 1 ] && [ "$(grep -c '^not ok' "$tap_tmp/out")" -eq 1 ] &&
        grep -q '^not ok .* whoever got a lock looked' "$tap_tmp/out"
}

check 'who does not look at other claims is seen' fails_for_that "$2"
tap_end
