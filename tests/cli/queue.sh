#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests: cli/info.c
# Does the command show who waits, in order?
# shellcheck disable=SC2317 # functions are called by name
# shellcheck source=tests/cli/kit.sh
. "$(dirname "${BASH_SOURCE[0]}")/kit.sh"

# waits COUNT NAME: so many wait for the name.
waits() {
    local i
    for ((i = 0; i < 1500; i++)); do
        [ "$("$dlock" inspect --json "$2" | jq .waiters)" = "$1" ] && return
        sleep 0.02
    done
    die "$1 waiters of $2 never came"
}

two_waiters() {
    "$dlock" run job -- sleep 60 &
    waits 0 job
    "$dlock" run --label first job -- true &
    waits 1 job
    "$dlock" run --label second --shared job -- true &
    waits 2 job
}

in_text() {
    two_waiters
    "$dlock" inspect --waiters job >shown
    grep -Eq '^waiter 0   .*:[0-9]+@[0-9a-f]{8}:first, exclusive, waits ' shown
    grep -Eq '^waiter 1   .*:[0-9]+@[0-9a-f]{8}:second, shared, waits ' shown
    "$dlock" inspect job >shown
    if grep '^waiter ' shown; then die "not asked for"; fi
}

in_json() {
    two_waiters
    "$dlock" inspect --waiters --json job >shown
    [ "$(jq -c '[.queue[] | [.position, .mode, (.label | sub(".*:"; "")), (.owner | length)]]' shown)" = \
        '[[0,"exclusive","first",32],[1,"shared","second",32]]' ] || die "$(<shown)"
    [ "$("$dlock" inspect --json job | jq .queue)" = null ]
}

need jq
shows "inspect --waiters has a line for each waiter in order" in_text
shows "inspect --waiters --json has an array of them" in_json
tap_end
