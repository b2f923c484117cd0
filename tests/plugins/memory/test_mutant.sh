#!/bin/bash
# SPDX-License-Identifier: MIT
# Does the test fail in this program, which has a defect?
# usage: test_mutant.sh SOURCE_DIR PROGRAM SUITE TEST
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
program=$2 suite=$3 test=$4

fails_on_mutant() {
    "$program" --tap=/dev/stdout --quiet --filter "$suite/$test" >"$tap_tmp/out" 2>&1
    local status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 1 ] && grep -q "^not ok - $suite::$test " "$tap_tmp/out"
}

check "$test sees $(basename "$program")" fails_on_mutant
tap_end
