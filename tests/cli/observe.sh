#!/bin/bash
# Tests: cli/cmd_observe.c cli/cmd_run.c cli/signals.c
# SPDX-License-Identifier: MIT
# C20: dlock observe and dlock run --again: an election, and who sees its outcome.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq

# changes N: seen has N lines.
changes() {
    [ "$(wc -l <seen)" -ge "$1" ]
}

leaders_are_seen() {
    "$dlock" run leader -- true # makes the store
    "$dlock" observe leader >seen &
    for n in 1 2; do
        "$dlock" run --ttl 1s --again --label "node$n" leader -- sleep 60 &
        nodes[n]=$!
    done
    within 20 changes 1
    first=$(jq -r .label seen) fence=$(jq .fence seen)
    kill -KILL "${nodes[${first: -1}]}"
    within 20 test_last_is_other "$first"
    [ "$(tail -1 seen | jq .fence)" -gt "$fence" ]
}

test_last_is_other() {
    tail -1 seen | jq -e --arg first "$1" '.held and .label != $first' >/dev/null
}

stands_again_after_a_loss() {
    # shellcheck disable=SC2016 # $ belongs to the inner shell
    "$dlock" run --ttl 1s --again leader -- sh -c 'echo "$DLOCK_FENCE" >>ran; [ "$(wc -l <ran)" -gt 1 ] || sleep 60' &
    within 20 test -s ran
    "$dlock" break --yes leader
    wait $! # the second run of the command ends by itself
    equal 2 "$(wc -l <ran)"
    [ "$(tail -1 ran)" -gt "$(head -1 ran)" ]
}

a_signal_ends_the_second_wait() {
    "$dlock" run --ttl 1s --again leader -- sh -c 'echo >>ran; sleep 60' 2>err2 &
    waiting=$!
    within 20 test -s ran
    "$dlock" run leader -- sleep 60 &
    "$dlock" break --yes leader
    within 20 grep -q 'lock lost' err2
    sleep 1
    kill -TERM "$waiting"
    wait "$waiting" || equal 143 $? "exit code"
    equal 1 "$(wc -l <ran)"
}

a_free_name_is_told() {
    "$dlock" run a -- sleep 60 &
    within 20 held a
    "$dlock" observe a >seen &
    within 20 changes 1
    kill -TERM %1
    within 20 changes 2
    equal false "$(tail -1 seen | jq .held)"
}

bad_use() {
    exits 64 "$dlock" observe
    exits 64 "$dlock" observe a b
    exits 66 "$dlock" -u "sqlite://$PWD/none.db" observe a
}

shows "a leader that was killed is followed by one with a greater fence" leaders_are_seen
shows "--again runs the command again after a loss, not after its own end" stands_again_after_a_loss
shows "--again: a signal ends the second wait" a_signal_ends_the_second_wait
shows "a name that becomes free is told" a_free_name_is_told
shows "observe needs one name and a store" bad_use
tap_end
