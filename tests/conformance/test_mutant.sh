#!/bin/bash
# SPDX-License-Identifier: MIT
# Does the case fail on the defective plugin in this directory?
# usage: test_mutant.sh SOURCE_DIR DLOCK_CONFORMANCE PLUGIN_DIR CASE
set -u
# shellcheck source=tests/tap.sh
. "$1/tests/tap.sh"
conformance=$2 mutant=$3 case=$4

fails_on_mutant() {
    DLOCK_PLUGIN_PATH=$mutant "$conformance" --only "$case" memory://mutant >"$tap_tmp/out" 2>&1
    local status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 1 ] && grep -q "^not ok 1 - memory://mutant $case " "$tap_tmp/out"
}

check "$case sees $(basename "$mutant")" fails_on_mutant
tap_end
