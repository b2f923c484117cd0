#!/bin/bash
# Tests: cli/lock_options.c cli/info.c cli/cmd_inspect.c cli/cmd_observe.c cli/cmd_why.c
# SPDX-License-Identifier: MIT
# C24: dlock run --data: which commands show it, and when.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq

address=http://10.0.0.3:8080

data_is() {
    [ "$("$dlock" --json inspect leader | jq -r '.holders[0].data')" = "$1" ]
}

inspect_and_its_kin_show_it() {
    "$dlock" run --data "$address" leader -- sleep 60 &
    within 20 data_is "$address"
    equal "$(printf %s "$address" | od -An -v -tx1 | tr -d ' \n')" \
        "$("$dlock" --json inspect leader | jq -r '.holders[0].data_hex')" data_hex
    exits 0 "$dlock" inspect leader
    grep -q "^data  *$address$" out
    exits 0 "$dlock" list
    grep -q 'HOLDER  DATA$' out
    grep -q "  $address$" out
    equal "$address" "$("$dlock" --json list | jq -r '.locks[0].data')" list
    exits 0 "$dlock" why leader
    grep -q "^data  *$address$" out
    exits 0 "$dlock" top --once
    grep -q 'DATA' out
    grep -qF "$address" out
}

nothing_is_shown_without_it() {
    "$dlock" run leader -- sleep 60 &
    within 20 data_is null
    exits 0 "$dlock" inspect leader
    grep -c '^data' out | grep -qx 0
    exits 0 "$dlock" list
    grep -c DATA out | grep -qx 0
    exits 0 "$dlock" top --once
    grep -c DATA out | grep -qx 0
}

observers_see_the_next_leader() {
    "$dlock" run leader -- true # makes the store
    "$dlock" observe leader >seen &
    "$dlock" run --data first leader -- sleep 60 &
    first=$!
    within 20 data_is first
    "$dlock" run --data second leader -- sleep 60 &
    within 20 waits
    kill -TERM "$first"
    within 20 last_is second
    jq -se 'any(.data == "first")' seen >/dev/null
    jq -se 'all((.held | not) or .data == "first" or .data == "second")' seen >/dev/null
}

waits() {
    [ "$("$dlock" --json inspect leader | jq .waiters)" = 1 ]
}

last_is() {
    [ "$(tail -1 seen | jq -r .data)" = "$1" ]
}

acquire_has_it_and_renew_keeps_it() {
    exits 0 "$dlock" acquire --data "$address" --ttl 1m leader
    read -r token _ <out
    data_is "$address"
    exits 0 "$dlock" renew leader --token "$token"
    data_is "$address"
    exits 0 "$dlock" release leader --token "$token"
    data_is null
}

nothing_is_cut_and_nothing_reaches_the_terminal() {
    local most
    most=$(printf '%01024d' 0)
    exits 0 "$dlock" acquire --data "$most" --ttl 1m leader
    exits 0 "$dlock" inspect leader
    grep -q "^data  *$most$" out
    exits 0 "$dlock" acquire --data "$(printf '\302\233A\342\200\256')" --ttl 1m other
    exits 0 "$dlock" --json inspect other
    grep -qiF '"\u009bA\u202e"' out
    exits 0 "$dlock" --json list
    grep -c "$(printf '\302\233')" out | grep -qx 0
}

too_much_is_refused() {
    exits 0 "$dlock" run --data "$(printf '%01024d' 0)" leader -- true
    exits 64 "$dlock" run --data "$(printf '%01025d' 0)" leader -- touch ran
    grep -q '1025 .*1024' err
    [ ! -e ran ]
}

shows "inspect, list, why and top show the data of a holder" inspect_and_its_kin_show_it
shows "a holder without data shows none" nothing_is_shown_without_it
shows "an observer sees the data of the next leader" observers_see_the_next_leader
shows "dlock acquire publishes data, and dlock renew keeps them" acquire_has_it_and_renew_keeps_it
shows "data are whole in text, and ASCII in JSON" nothing_is_cut_and_nothing_reaches_the_terminal
shows "1024 bytes are published, and 1025 are refused" too_much_is_refused
tap_end
