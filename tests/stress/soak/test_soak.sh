#!/bin/bash
# SPDX-License-Identifier: MIT
# Does dlock-soak see a few bytes that each round leaks, at the counts of every run?
# usage: test_soak.sh SOURCE_DIR DLOCK_SOAK
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"

leaks_are_seen() {
    "$2" --backend redis --pairs 1000 --opens 300 --reconnects 300 --plant "$1" >"$tap_tmp/out"
    local status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 1 ] && [ "$(grep -c '^not ok' "$tap_tmp/out")" -eq "$3" ]
}

check '24 bytes a round, of each kind' leaks_are_seen 24 "$2" 3
check 'none' "$2" --backend redis --pairs 1000 --opens 300 --reconnects 300
tap_end
