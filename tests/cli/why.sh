#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests: cli/cmd_why.c cli/snapshot.c
# Does dlock why tell who holds a name, whether that process lives, what it waits for, and a deadlock?
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "${BASH_SOURCE[0]}")/kit.sh"
host=$(hostname)

# waiting, waits COUNT NAME [URI]: so many wait for the name.
waiting() {
    [ "$("$dlock" ${3:+-u "$3"} inspect --json "$2" | jq .waiters)" = "$1" ]
}
waits() {
    within 60 waiting "$@"
}

a_free_name() {
    "$dlock" run other -- true
    exits 1 "$dlock" why job
    equal "$(printf 'name       job\nstate      free')" "$(<out)"
    exits 1 "$dlock" why --json job
    equal '[false,[],[]]' "$(jq -c '[.held, .locks, .deadlock]' out)"
}

the_holder_and_the_queue() {
    "$dlock" run --label 'night shift' job -- sleep 300 &
    waits 0 job
    "$dlock" run --label first job -- true &
    waits 1 job
    "$dlock" run --label second --shared job -- true &
    waits 2 job
    exits 0 "$dlock" why job
    grep -q "^holder     $host:[0-9]*@[0-9a-f]*:night shift, exclusive, held [0-9.]*s, [0-9.]*s left$" out || die "$(<out)"
    grep -A1 '^process    [0-9]* (dlock) runs on this host$' out | grep -qx 'command    sleep' || die "$(<out)"
    grep -Eq "^waiter 0   $host:[0-9]*@[0-9a-f]*:first, exclusive, waits [0-9.]+m?s$" out || die "$(<out)"
    grep -Eq "^waiter 1   $host:[0-9]*@[0-9a-f]*:second, shared, waits [0-9.]+m?s$" out || die "$(<out)"
    if grep -e '^waits for' -e DEADLOCK out; then die "it waits for nothing"; fi
    exits 0 "$dlock" why --json job
    equal '["job","runs","dlock","sleep",[],["exclusive","shared"]]' "$(jq -c '.locks[0] | [.name,
        (.holders[0].process | .state, .program, .command), .holders[0].waits_for, [.queue[].mode]]' out)"
}

the_process_of_the_holder() {
    local holder
    "$dlock" acquire --ttl 300s gone >token # its process ends, the lease does not
    exits 0 "$dlock" why gone
    grep -q '^process    [0-9]* has ended; the lease ends by itself, in [0-9ms.]*$' out || die "$(<out)"
    "$dlock" run --ttl 300s stopped -- sleep 300 &
    holder=$!
    within 60 held stopped
    kill -STOP "$holder"
    exits 0 "$dlock" why stopped
    grep -q "^process    $holder (dlock) is stopped on this host$" out || die "$(<out)"
    kill -CONT "$holder"
}

# labelled LABEL SECONDS: the lease of the name reused has this label, and was taken so much earlier
labelled() {
    /usr/bin/python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=30) as store:
    store.execute("UPDATE locks SET label = ?, since_ns = since_ns - ? * 1000000000", sys.argv[2:])' \
        "${store#sqlite://}" "$1" "$2"
}

# This shell has the number of a process that held the lease before the shell began, or later.
a_number_that_another_process_has_now() {
    local space
    "$dlock" acquire --ttl 300s reused >token
    space=$("$dlock" --json inspect reused | jq -r '.holders[0].label | sub(".*@"; "")')
    labelled "$host:$$@$space" 0
    exits 0 "$dlock" why reused
    grep -q "^process    $$ (.*) runs on this host$" out || die "$(<out)"
    labelled "$host:$$@$space" 86400
    exits 0 "$dlock" why reused
    grep -q "^process    $$ has ended; the lease ends by itself" out || die "$(<out)"
    equal ended "$("$dlock" why --json reused | jq -r '.locks[0].holders[0].process.state')"
}

# From here the number is another process's, or nobody's.
of_another_container() {
    local space
    unshare --pid --fork --mount-proc --kill-child "$dlock" run --ttl 6s job -- sleep 300 &
    waits 0 job
    unshare --pid --fork --mount-proc --kill-child "$dlock" run --ttl 6s job -- true &
    waits 1 job
    exits 0 "$dlock" why job
    grep -q "^process    1 of host $host; whether it runs cannot be seen from here$" out || die "$(<out)"
    if grep -e DEADLOCK -e 'waits for' -e 'has ended' out; then die "two processes with the number 1"; fi
    equal '["elsewhere",1,null]' "$("$dlock" why --json job | jq -c '.locks[0].holders[0].process | [.state, .pid, .program]')"
    space=$("$dlock" --json inspect job | jq -r '.holders[0].label | sub(".*@"; "")')
    unshare --pid --fork --mount-proc --kill-child "$dlock" why job >inside
    grep -q "^process    1 of host $host; whether" inside || die "$(<inside)"
    "$dlock" acquire --ttl 300s reused >token
    if [ "$space" = "$("$dlock" --json inspect reused | jq -r '.holders[0].label | sub(".*@"; "")')" ]; then die "$space"; fi
    labelled "$host:999999999" 0 # of an earlier release
    exits 0 "$dlock" why reused
    grep -q "^process    999999999 of host $host; whether it runs cannot be seen from here$" out || die "$(<out)"
    equal '["unknown",999999999]' "$("$dlock" why --json reused | jq -c '.locks[0].holders[0].process | [.state, .pid]')"
}

# then_takes URI NAME: a command that takes the name when the file go is there
then_takes() {
    printf 'until [ -e go ]; do sleep 0.05; done; exec "%s" -u "%s" run %s -- true' "$dlock" "$1" "$2"
}

# Holders of each lock wait for the next one, but that of the last.
a_chain_is_no_deadlock() {
    "$dlock" run --label first a -- sh -c "$(then_takes "$store" b)" &
    "$dlock" run --label second b -- sh -c "$(then_takes "$store" c)" &
    "$dlock" run --label third c -- sleep 300 &
    within 60 held a
    within 60 held b
    within 60 held c
    touch go
    waits 1 b
    waits 1 c
    exits 0 "$dlock" why a
    grep -q '^waits for  b, as waiter 0, in its child [0-9]*$' out || die "$(<out)"
    grep -q '^waits for  c, as waiter 0, in its child [0-9]*$' out || die "$(<out)"
    equal 'a b c' "$(sed -n 's/^name       //p' out | xargs)"
    if grep DEADLOCK out; then die "c is given back"; fi
    exits 0 "$dlock" why c
    equal 'c' "$(sed -n 's/^name       //p' out | xargs)"
}

# plant: three processes, two stores: a waits for b in the other store, that for c, that for a
plant() {
    other=sqlite://$PWD/other.db
    "$dlock" run a -- sh -c "$(then_takes "$other" b)" &
    "$dlock" -u "$other" run b -- sh -c "$(then_takes "$store" c)" &
    "$dlock" run c -- sh -c "$(then_takes "$store" a)" &
    within 60 held a
    within 60 held c
    within 60 waiting 0 b "$other"
    touch go
    waits 1 a
    waits 1 c
    waits 1 b "$other"
}

a_planted_deadlock_over_two_stores() {
    local other
    plant
    exits 0 "$dlock" why --also "$other" a
    equal "DEADLOCK   a in $store -> b in $other -> c in $store -> a in $store" "$(grep DEADLOCK out)"
    exits 0 "$dlock" -u "$other" why --also "$store" b
    equal "DEADLOCK   b in $other -> c in $store -> a in $store -> b in $other" "$(grep DEADLOCK out)"
    exits 0 "$dlock" why --also "$other" --json c
    equal "[[\"c\",\"$store\"],[\"a\",\"$store\"],[\"b\",\"$other\"]]" \
        "$(jq -c '[.deadlock[] | [.name, .store]]' out)"
    equal 3 "$(jq '.locks | length' out)"
}

one_store_of_two_shows_no_deadlock() {
    local other
    plant
    exits 0 "$dlock" why a
    if grep DEADLOCK out; then die "what the other store has is not known"; fi
}

a_permit_that_comes_back_is_no_deadlock() {
    "$dlock" run --limit 2 s -- sh -c "$(then_takes "$store" a)" &
    "$dlock" run --limit 2 s -- sleep 300 &
    "$dlock" run a -- sh -c 'until [ -e go ]; do sleep 0.05; done; exec "$0" run --limit 2 s -- true' "$dlock" &
    within 60 eval '[ "$("$dlock" inspect --json s | jq ".holders | length")" = 2 ]'
    within 60 held a
    touch go
    waits 1 s
    waits 1 a
    exits 0 "$dlock" why a
    grep -q '^waits for  s, as waiter 0' out || die "$(<out)"
    if grep DEADLOCK out; then die "one permit comes back"; fi
}

bad_arguments() {
    exits 64 "$dlock" why
    one_line 'why: exactly one NAME is needed'
    exits 64 "$dlock" why a b
    "$dlock" run a -- true
    exits 64 "$dlock" why --also "$store" a
    one_line 'why: .* is given twice'
    exits 66 "$dlock" why --also "sqlite://$PWD/none.db" a
    one_line 'none.db'
    exits 66 "$dlock" -u "sqlite://$PWD/none.db" why a
    [ ! -e none.db ] || die "why made a store"
    exits 69 "$dlock" why --also 'redis://u:hush@127.0.0.1:1?connect_timeout=1s' a
    if grep hush out err; then die "the password is shown"; fi
}

need jq /usr/bin/python3 unshare
shows "why: a free name exits 1" a_free_name
shows "why: the holder, its process, and the waiters in order" the_holder_and_the_queue
shows "why: a process that ended, and one that is stopped" the_process_of_the_holder
shows "why: a number that belongs to another process now" a_number_that_another_process_has_now
shows "why: a process of another PID namespace is not judged, and is no part of a deadlock" of_another_container
shows "why: what the holders wait for, one after another" a_chain_is_no_deadlock
shows "why: names a planted cycle of three processes over two stores" a_planted_deadlock_over_two_stores
shows "why: a store that is not given is not known" one_store_of_two_shows_no_deadlock
shows "why: a semaphore with a holder that goes on is no deadlock" a_permit_that_comes_back_is_no_deadlock
shows "why: bad arguments, and no store is made" bad_arguments
tap_end
