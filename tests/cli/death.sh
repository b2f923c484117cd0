#!/bin/bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317 # functions are called by name
# When does the lock of a dlock that is killed end (C23), and how long does the next one wait for it? DEATH_ROUNDS: how often.
# shellcheck source=tests/cli/kit.sh
. "$(dirname "${BASH_SOURCE[0]}")/kit.sh"

rounds=${DEATH_ROUNDS:-5}

now_us() {
    local now=$EPOCHREALTIME
    echo "${now/./}"
}

# until_file FILE: something has written it.
until_file() {
    local i
    for ((i = 0; i < 3000; i++)); do
        [ -s "$1" ] && return
        sleep 0.01
    done
    die "nobody writes $1"
}

# holder COMMAND: a run that holds the name, and has started the command; its number is in $holder.
holder() {
    rm -f held
    "$dlock" run job -- bash -c "echo \$\$ >held; $1" &
    holder=$!
    until_file held
}

# Commands that write the time as long as they live.
next_after_death() {
    local i waiter
    for ((i = 0; i < rounds; i++)); do
        rm -f alive next
        # shellcheck disable=SC2016
        holder 'while :; do echo ${EPOCHREALTIME/./} >alive.new; mv alive.new alive; done'
        # shellcheck disable=SC2016
        "$dlock" run job -- bash -c 'echo ${EPOCHREALTIME/./} >next' &
        waiter=$!
        while [ "$("$dlock" inspect --json job | jq .waiters)" != 1 ]; do sleep 0.01; done
        sleep 0.0$((RANDOM % 90 + 10))
        now_us >killed
        kill -KILL "$holder"
        wait "$waiter"
        [ "$(<next)" -ge "$(<alive)" ] || die "the next one started at $(<next), and the command lived at $(<alive)"
        lasted 0 $((($(<next) - $(<killed)) / 1000)) 15000 "time to the next one (the lease has 30 s)"
        echo $((($(<next) - $(<killed)) / 1000)) >>waits.txt
    done
    sort -n waits.txt | awk '{ t[NR] = $1 } END {
        printf "# ms from the kill to the next command: median %d, p99 %d, most %d of %d\n",
            t[int((NR + 1) / 2)], t[int(NR * 0.99 + 0.999)], t[NR], NR }' >&3
}

children_keep_it() {
    holder 'sleep 4 & echo $! >child; wait'
    until_file child
    kill -KILL "$holder"
    sleep 0.5
    fails 75 "$dlock" run --nowait job -- true
    kill "$(<child)"
    "$dlock" run --wait 20s job -- true
}

children_keep_it_until_the_ttl() {
    local began
    export DLOCK_URI="$store?ttl=2s"
    holder 'sleep 60 & echo $! >child; wait'
    until_file child
    kill -KILL "$holder"
    began=$(now_us)
    "$dlock" run --wait 20s job -- true
    [ $(($(now_us) - began)) -gt 900000 ] || die "before the ttl"
    kill -0 "$(<child)"
    kill "$(<child)"
}

acquire_is_left_to_its_ttl() {
    "$dlock" acquire job >token
    fails 75 "$dlock" run --nowait job -- true
    "$dlock" renew job --token "$(jq -r .token <("$dlock" inspect --json job | jq '.holders[0] | {token: .owner}'))"
    fails 75 "$dlock" run --nowait job -- true
}

# fails STATUS COMMAND...
fails() {
    local status=0 wanted=$1
    shift
    "$@" || status=$?
    [ "$status" -eq "$wanted" ] || die "$*: $status, want $wanted"
}

need jq
exec 3>&1
shows "the next command starts after the death of the command, and soon" next_after_death
shows "a child of the command that lives keeps the lock" children_keep_it
shows "no longer than its ttl" children_keep_it_until_the_ttl
shows "a lock of acquire outlives its process" acquire_is_left_to_its_ttl
tap_end
