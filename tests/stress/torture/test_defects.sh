#!/bin/bash
# SPDX-License-Identifier: MIT
# Does a run fail, and for the right reason, whose store grants to everybody, repeats a fence, gives a
# permit twice, shows a holder with the data of another one (C24), keeps no name (C22), ends a lease
# though a program of its holder lives (C23), or whose clients never look at the claims of the others?
# usage: test_defects.sh SOURCE_DIR DLOCK_TORTURE PLUGIN_TO_EVERYBODY PLUGIN_OF_FENCES BLIND_TORTURE
#     PLUGIN_OF_PERMITS PLUGIN_OF_DATA PLUGIN_THAT_KEEPS_NOTHING PLUGIN_OF_LIVES
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"

# run NAME PROGRAM [PROFILE [BACKEND OPTION...]]: in the background; its status is in NAME.status.
run() {
    "$2" --backend "${4-memory}" --profile "${3-P}" --duration 2s --keep "$tap_tmp/$1" "${@:5}" >"$tap_tmp/$1.out" 2>&1
    echo $? >"$tap_tmp/$1.status"
}

# fails_for NAME PATTERN COUNT: so many tests were not ok, and that was found.
fails_for() {
    cat "$tap_tmp/$1.out"
    [ "$(cat "$tap_tmp/$1.status")" -eq 1 ] && grep -q "$2" "$tap_tmp/$1.out" &&
        [ "$(grep -c '^not ok' "$tap_tmp/$1.out")" -eq "$3" ]
}

DLOCK_PLUGIN_PATH=$3 run everybody "$2" &
DLOCK_PLUGIN_PATH=$4 run fences "$2" &
run blind "$5" &
DLOCK_PLUGIN_PATH=$6 run twice "$2" L &
DLOCK_PLUGIN_PATH=$7 run data "$2" &
DLOCK_PLUGIN_PATH=$8 run keeps "$2" K &
DLOCK_PLUGIN_PATH=$9 run lives "$2" D sqlite --duration 120s --until-seen &
wait
check 'a store that grants to everybody: by history' fails_for everybody '^# OVERLAP:' 2
check '... and by shared memory' fails_for everybody '^# two at once:' 2
check 'a store that gives a permit twice: by history' fails_for twice ' times: PERMIT$' 2
check '... and by shared memory' fails_for twice '^# two at once:' 2
check 'a store that repeats a fence' fails_for fences '^# FENCE:' 1
check 'a store that shows the data of the holder before' fails_for data '^# DATA:' 1
check 'a store that keeps no name' fails_for keeps '^# KEEP:' 1
check 'a store that ends a lease though a program lives' fails_for lives '^# two at once:' 1
check 'clients that do not look' fails_for blind '^not ok .* whoever got a lock looked' 1
tap_end
