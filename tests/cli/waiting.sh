#!/bin/bash
# SPDX-License-Identifier: MIT
# run --wait covers the store: one that is started later, has no quorum, or keeps its restart guard.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need redis-server redis-cli

refuses() {
    ! (: <"/dev/tcp/127.0.0.1/$1")
} 2>/dev/null

# A port where nobody listens, in $port.
free_port() {
    port=$((20000 + RANDOM % 10000))
    until refuses "$port"; do
        port=$((port + 1))
    done
}

# server PORT: ends with the test
server() {
    redis-server --port "$1" --bind 127.0.0.1 --save '' --dir "$PWD" >server.log &
    within 20 redis-cli -p "$1" ping
}

store_that_starts_later() {
    local pid
    free_port
    "$dlock" -u "redis://127.0.0.1:$port?restart_guard=0" run --wait 60s x -- touch ran 2>err &
    pid=$!
    sleep 1
    alive "$pid" || die "it did not wait: $(cat err)"
    server "$port"
    exit_of "$pid"
    equal 0 "$code" "exit code ($(cat err))"
    one_line 'waiting: .*refused' # without -v: a person sees why nothing happens
    [ -e ran ]
}

store_that_never_starts() {
    local began took
    free_port
    began=$(now_ms)
    exits 69 "$dlock" -u "redis://127.0.0.1:$port" run --wait 1s x -- touch ran
    took=$(($(now_ms) - began))
    lasted 900 "$took" 10000 "time waited"
    equal 2 "$(grep -c refused err)" "a line when the wait begins, and one when it ends"
    equal 1 "$(grep -c waiting: err)" "$(cat err)"
    equal 0 "$(grep -c 'bounds the wait' err)" "$(cat err)"
    "$dlock" -u "redis://127.0.0.1:$port" run x -- touch ran 2>err &
    within 20 grep -q 'waiting: .*refused.*--wait TIME bounds the wait' err || die "$(cat err)"
    kill "$!"
    wait "$!" || [ $? -eq 143 ]
    exits 69 "$dlock" -u "redis://127.0.0.1:$port" run --nowait x -- touch ran
    one_line 'refused'
    [ ! -e ran ]
}

# The time that the library gave its plugin, in ms from the first attempt to open a session on: the latest
# deadline of the trace. Load does not change it: any attempt has 40 ms, and those that have no more are not counted.
time_given() {
    awk '$4 == "redlock" && match($0, / deadline=[+][0-9]+ms/) {
            left = substr($0, RSTART + 11, RLENGTH - 13) + 0
            if (!opens++) first = $3 * 1000
            if (left > 40 && $3 * 1000 + left > last) last = $3 * 1000 + left
        }
        END { printf "%d\n", last ? last - first : -1 }' "$1"
}

# The issue asks for 3.3 s on a quiet machine, after 5 s by connect_timeout.
no_quorum_ends_with_the_wait() {
    local began took
    free_port
    server "$port"
    began=$(now_ms)
    exits 69 env DLOCK_TRACE="$PWD/trace" "$dlock" \
        -u "redlock://127.0.0.1:$port,127.0.0.1:1,127.0.0.1:2?restart_guard=0" run --wait 3s x -- touch ran
    between 1 "$(time_given trace)" 3000 "time that the plugin was given ($(cat trace))"
    took=$(($(now_ms) - began))
    lasted 2900 "$took" 10000 "time waited"
    [ "$(grep -c '^dlock: ' err)" -eq "$(wc -l <err)" ] || die "$(cat err)"
    [ ! -e ran ]
}

guard_is_told() {
    local pid
    free_port
    server "$port"
    exits 75 "$dlock" -u "redis://127.0.0.1:$port" run --nowait x -- touch ran
    one_line 'x: .*restart_guard'
    exits 75 "$dlock" -u "redis://127.0.0.1:$port" run --skip-quietly x -- touch ran
    one_line 'x: .*restart_guard'
    [ ! -e ran ]
    "$dlock" -u "redis://127.0.0.1:$port?restart_guard=5s&ttl=5s" run --wait 60s x -- touch ran 2>err &
    pid=$!
    exit_of "$pid"
    equal 0 "$code" "exit code ($(cat err))"
    one_line 'waiting: .*restart_guard'
    [ -e ran ]
}

# The ttl of the command counts, not the default ttl of 30 s, which is longer than the guard. The guard is so
# long that it is not over before the last run that has to be BUSY.
guard_as_long_as_the_ttl() {
    local redis redlock
    free_port
    server "$port"
    redis="redis://127.0.0.1:$port?restart_guard=25s"
    redlock="redlock://127.0.0.1:$port?any_count=on&restart_guard=25s"
    exits 75 "$dlock" -u "$redis" run --ttl 25s --nowait x -- touch ran
    one_line 'x: .*started .* ago; .*restart_guard'
    exits 75 env DLOCK_URI="$redis" "$dlock" run --ttl 25s --nowait x -- touch ran
    exits 78 "$dlock" -u "$redis" run --ttl 26s --nowait x -- touch ran
    one_line 'a ttl of 26 s is longer than restart_guard .25 s.: .*use a ttl of at most 25 s'
    exits 78 "$dlock" -u "$redis" run --nowait x -- touch ran
    one_line 'a ttl of 30 s is longer'
    exits 75 "$dlock" -u "$redlock" run --ttl 25s --nowait x -- touch ran
    exits 78 "$dlock" -u "$redlock" run --ttl 26s --nowait x -- touch ran
    exits 78 "$dlock" -u "$redis&ttl=40s" run --ttl 25s --nowait x -- touch ran # the URI contradicts itself
    one_line 'a ttl of 40 s is longer'
    [ ! -e ran ]
}

# A command without a lease needs no ttl: it works with the URI of run --ttl 25s.
guard_without_a_lease() {
    local redis redlock
    free_port
    server "$port"
    redis="redis://127.0.0.1:$port?restart_guard=25s"
    redlock="redlock://127.0.0.1:$port?any_count=on&restart_guard=25s"
    exits 1 "$dlock" -u "$redis" inspect x
    exits 0 "$dlock" -u "$redis" list
    exits 0 "$dlock" -u "$redis" doctor
    exits 1 "$dlock" -u "$redis" break --yes x
    exits 1 "$dlock" -u "$redlock" inspect x
}

# Before a nested run waits, it looks for enclosing runs of the name. --ttl does not shorten that: a server
# that is slow at first is no failure.
short_ttl_of_a_nested_run() {
    free_port
    server "$port"
    redis-cli -p "$port" client pause 1000
    exits 0 env DLOCK_HELD=78:00112233445566778899aabbccddeeff \
        "$dlock" -u "redis://127.0.0.1:$port?restart_guard=0" run --ttl 2s --wait 60s x -- touch ran
    [ -e ran ]
}

a_signal_ends_it() {
    local pid
    free_port
    "$dlock" -u "redis://127.0.0.1:$port" run x -- touch ran 2>err &
    pid=$!
    sleep 0.5
    kill -TERM "$pid"
    exit_of "$pid"
    equal 143 "$code" "exit code"
    [ ! -e ran ]
}

strict_doctor_sees_a_dead_node() {
    local other nodes
    free_port
    server "$port"
    other=$port
    free_port
    server "$port"
    nodes=127.0.0.1:$port,127.0.0.1:$other
    exits 1 "$dlock" -u "redlock://$nodes,127.0.0.1:1" doctor --strict
    grep -A1 'check  *127.0.0.1:1: .*refused' out | grep -q ' advice ' || die "$(cat out err)"
    equal 1 "$(grep -c ' advice ' out)" "$(cat out)"
    exits 0 "$dlock" -u "redlock://$nodes,127.0.0.1:1" doctor
}

shows "run --wait waits for a server that is started later" store_that_starts_later
shows "run --wait, --nowait at a store that stays away: 69, in time" store_that_never_starts
shows "run --wait at a redlock without quorum ends with the wait" no_quorum_ends_with_the_wait
shows "a restart guard: refused or waited for, with one line that says why" guard_is_told
shows "a restart guard as long as --ttl fits" guard_as_long_as_the_ttl
shows "a restart guard below 30 s: inspect, list, break and doctor work" guard_without_a_lease
shows "run --ttl: a nested run has time to ask a slow server" short_ttl_of_a_nested_run
shows "a signal ends the wait for a store" a_signal_ends_it
shows "doctor --strict: a node that does not answer is 1" strict_doctor_sees_a_dead_node
tap_end
