#!/bin/bash
# Tests: cli/cmd_acquire.c
# Tests: cli/cmd_token.c
# Tests: cli/cmd_hold.c
# Tests: cli/lock_options.c
# Tests: cli/acquire.c
# Tests: cli/output.c
# SPDX-License-Identifier: MIT
# A lock in a script: acquire, renew and release by token, hold.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq script

nobody=00000000000000000000000000000000

# taken NAME OPTION...: sets token and fence
taken() {
    local name=$1
    shift
    exits 0 "$dlock" acquire "$@" "$name"
    equal 1 "$(wc -l <out)" "lines of acquire"
    read -r token fence <out
    [[ $token =~ ^[0-9a-f]{32}$ && $fence =~ ^[0-9]+$ ]] || die "acquire printed: $(cat out)"
}

acquire_leaves_the_lock() {
    local first
    taken x
    equal "$token" "$("$dlock" --json inspect x | jq -r '.holders[0].owner')" "the owner"
    equal "$fence" "$("$dlock" --json inspect x | jq -r '.holders[0].fence')" "the fence"
    exits 75 "$dlock" acquire --nowait x
    one_line '^dlock: x: held by '
    equal "" "$(cat out)" "output of a refusal"
    exits 75 "$dlock" acquire --wait 200ms x
    first=$fence
    exits 0 "$dlock" release x --token "$token"
    is_free x
    taken x
    [ "$fence" -gt "$first" ] || die "fence $fence after $first (C6)"
}

acquire_is_not_renewed() {
    taken x --ttl 1s
    within 30 is_free x
    exits 70 "$dlock" renew x --token "$token"
    one_line '^dlock: x: lock lost: '
    exits 70 "$dlock" release x --token "$token"
    one_line '^dlock: x: lock lost: '
}

# The lease lives on after the time that acquire gave it.
renew_gives_more_time() {
    local left
    taken x --ttl 2s
    exits 0 "$dlock" --json renew x --token "$token" --ttl 5m
    equal '["x",true]' "$(jq -c '[.name, .renewed]' out)" "renew"
    left=$("$dlock" --json inspect x | jq '.holders[0].remaining_ms')
    between 100000 "$left" 300000 "time left"
    exits 0 "$dlock" renew x --token "$token" --ttl 2s
    left=$("$dlock" --json inspect x | jq '.holders[0].remaining_ms')
    between 60000 "$left" 300000 "a shorter ttl shortens nothing"
    exits 0 "$dlock" --json release x --token "$token"
    equal '["x",true]' "$(jq -c '[.name, .released]' out)" "release"
}

# Another holder is left alone.
a_late_release_harms_nobody() {
    local old
    taken x
    old=$token
    exits 0 "$dlock" break --yes x
    taken x
    exits 70 "$dlock" release x --token "$old"
    exits 70 "$dlock" renew x --token "$old"
    equal "$token" "$("$dlock" --json inspect x | jq -r '.holders[0].owner')" "the owner"
}

acquire_in_json() {
    exits 0 "$dlock" --json acquire --ttl 1m x
    equal 1 "$(wc -l <out)" "lines"
    jq -e '.name == "x" and (.token | test("^[0-9a-f]{32}$")) and .fence > 0 and .remaining_ms > 30000' out >/dev/null ||
        die "$(cat out)"
}

acquire_shared() {
    local first='' second=''
    taken_shared first x
    taken_shared second x
    exits 75 "$dlock" acquire --nowait x
    exits 0 "$dlock" release x --token "$first"
    exits 75 "$dlock" acquire --nowait x
    exits 0 "$dlock" release x --token "$second"
    is_free x
}

# taken_shared VARIABLE NAME: the variable gets the token
taken_shared() {
    exits 0 "$dlock" acquire --shared "$2"
    read -r "${1?}" _ <out
}

usage_is_told() {
    exits 64 "$dlock" release x --token 12345
    one_line '--token=12345 is not a token'
    exits 64 "$dlock" renew x --token "${nobody^^}G"
    one_line 'is not a token'
    exits 64 "$dlock" renew x
    one_line 'renew: --token is missing'
    exits 64 "$dlock" release --token "$nobody"
    one_line 'release: exactly one NAME'
    exits 64 "$dlock" release x --token "$nobody" --ttl 3s
    one_line '--ttl: unknown'
    exits 64 "$dlock" renew x --token "$nobody" --ttl soon
    one_line '--ttl=soon '
    exits 64 "$dlock" acquire
    one_line 'acquire: exactly one NAME'
    exits 64 "$dlock" acquire --wait 1s --nowait x
    one_line 'exclude each other'
    exits 64 "$dlock" hold x y
    one_line 'hold: exactly one NAME'
    exits 66 "$dlock" release x --token "$nobody"
    [ ! -e locks.db ] || die "release made a store"
    exits 69 "$dlock" -u 'redis://127.0.0.1:1/?connect_timeout=1s' renew x --token "$nobody"
}

# Nobody would know the token.
an_output_that_fails() {
    local code=0
    "$dlock" acquire x >/dev/full 2>err || code=$?
    equal 71 "$code" "exit code"
    one_line 'standard output: '
    is_free x
}

# hold_begin NAME OPTION...: hold as coprocess whose line is in $line; $pid, and ${input} to end it
hold_begin() {
    coproc HOLD { exec "$dlock" hold "${@:2}" "$1" 2>err; }
    pid=$HOLD_PID
    input=${HOLD[1]}
    read -r -t 30 line <&"${HOLD[0]}" || die "hold printed nothing: $(cat err)"
}

hold_until_the_end_of_input() {
    hold_begin x --ttl 2s
    [[ $line =~ ^[0-9a-f]{32}\ [0-9]+$ ]] || die "$line"
    echo "this means nothing" >&"$input"
    sleep 4 # two leases
    held x
    equal "${line% *}" "$("$dlock" --json inspect x | jq -r '.holders[0].owner')" "the owner"
    exec {input}>&-
    exit_of "$pid"
    equal 0 "$code" "exit code"
    is_free x
}

hold_that_is_lost() {
    hold_begin x --ttl 6s
    exits 0 "$dlock" break --yes x
    exit_of "$pid"
    equal 70 "$code" "exit code"
    grep -q '^dlock: x: lock lost: it was broken or taken away$' err || die "$(cat err)"
}

hold_that_gets_a_signal() {
    hold_begin x
    kill -TERM "$pid"
    exit_of "$pid"
    equal 143 "$code" "exit code"
    is_free x
}

hold_in_json() {
    exits 0 "$dlock" --json hold x < <(:)
    jq -e '.name == "x" and .fence > 0' out >/dev/null || die "$(cat out)"
    is_free x
}

hold_refused() {
    taken x
    exits 75 "$dlock" hold --nowait x < <(:)
    one_line '^dlock: x: held by '
}

# A command that a script starts with & has /dev/null as input; its end is not that of the script.
hold_without_an_input() {
    local input
    for input in /dev/null /dev/zero /etc/passwd; do
        exits 64 "$dlock" hold x <"$input"
        one_line 'hold: standard input is no pipe'
    done
    exits 64 "$dlock" hold x <&-
    exits 64 "$dlock" hold --until input x </dev/null
    exits 64 "$dlock" hold --until end x
    one_line '--until=end is not one of input|signal|parent'
    exits 64 "$dlock" acquire --until parent x
    [ ! -e locks.db ] || die "it has made a store"
}

hold_in_the_background_of_a_terminal() {
    timeout 20 script -qec "bash -mc '$dlock hold x & wait \$!; echo code \$?'" /dev/null </dev/null >out
    grep -q 'code 64' out || die "$(cat out)"
    [ ! -e locks.db ]
}

hold_until_a_signal() {
    local name want
    while read -r name want; do
        rm -f out
        env --default-signal "$dlock" hold --until signal --ttl 2s x >out </dev/null &
        pid=$!
        within 20 test -s out
        sleep 0.5
        held x
        kill -s "$name" "$pid"
        exit_of "$pid"
        equal "$want" "$code" "exit code after $name"
        is_free x
    done <<'SIGNALS'
TERM 0
INT 0
HUP 129
SIGNALS
    "$dlock" hold --until signal --ttl 2s x 2>err >out </dev/null &
    pid=$!
    within 20 held x
    exits 0 "$dlock" break --yes x
    exit_of "$pid"
    equal 70 "$code" "exit code after a loss"
}

# A shell that starts hold --until parent, and lives on; its number is in $pid, that of hold in the file number.
parent() {
    rm -f token number
    sh -c '"$0" hold --until parent --ttl 5s x >token </dev/null & echo $! >number; exec sleep 300' "$dlock" &
    pid=$!
    within 20 test -s number
}

hold_until_the_parent_ends() {
    local second
    parent
    within 20 test -s token
    held x
    second=$(cat number)
    kill -KILL "$pid"
    within 20 gone "$second"
    is_free x
    # it ends the wait, too
    taken x --ttl 300s
    parent
    within 20 waits_for x
    second=$(cat number)
    kill -KILL "$pid"
    within 20 gone "$second"
    exits 0 "$dlock" release x --token "$token"
    is_free x
}

waits_for() {
    [ "$("$dlock" --json inspect "$1" | jq .waiters)" = 1 ]
}

shows "acquire prints token and fence, and leaves the lock until it is released (C6, C7)" acquire_leaves_the_lock
shows "acquire renews nothing; renew and release of a lock that is lost exit 70" acquire_is_not_renewed
shows "renew: the lock has more time, and never less" renew_gives_more_time
shows "a release and a renewal that come too late leave the next holder alone (C7)" a_late_release_harms_nobody
shows "acquire --json: one object on one line" acquire_in_json
shows "acquire --shared: each has a token of its own (C12)" acquire_shared
shows "acquire, renew, release, hold: wrong usage is named, and makes no store" usage_is_told
shows "acquire: a token that cannot be printed keeps no lock" an_output_that_fails
shows "hold renews until standard input is closed, then releases (C14)" hold_until_the_end_of_input
shows "hold ends with 70 when the lock is lost (C5)" hold_that_is_lost
shows "hold releases when a signal ends it" hold_that_gets_a_signal
shows "hold without an input that has an end exits 64, and holds nothing" hold_without_an_input
shows "hold in the background of a terminal exits 64" hold_in_the_background_of_a_terminal
shows "hold --until signal" hold_until_a_signal
shows "hold --until parent ends with its parent, also while it waits" hold_until_the_parent_ends
shows "hold --json: one object" hold_in_json
shows "hold: a refusal names the holder" hold_refused
tap_end
