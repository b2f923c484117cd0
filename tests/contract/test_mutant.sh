#!/bin/bash
# SPDX-License-Identifier: MIT
# Does the case fail on this mutant?
# usage: test_mutant.sh SOURCE_DIR PROGRAM PLUGIN_DIR CASE NAME [PLUGIN] URI
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
program=$2 plugins=$3 case=$4 name=$5
shift 5
store=("$@")
uri=${store[-1]}

fails_on_mutant() {
    DLOCK_PLUGIN_PATH=$plugins "$program" --strict --only "$case" "${store[@]}" >"$tap_tmp/out" 2>&1
    local status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 1 ] && grep -q "^not ok 1 - ${uri%%:*}:.* $case " "$tap_tmp/out"
}

check "$case sees that it $name" fails_on_mutant
tap_end
