#!/bin/bash
# Tests: cli/cmd_doctor.c
# SPDX-License-Identifier: MIT
# Does `dlock doctor --watch` say, round by round, whether the store serves locks; does it outlast an
# outage, and end at a signal?
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq redis-cli /usr/bin/python3
scrape=$(realpath "$(dirname "$0")")/scrape.py

value() {
    /usr/bin/python3 "$scrape" file "$1" "$2"
}

lines_are() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}

rounds_and_their_end() {
    local pid
    "$dlock" run x -- true
    "$dlock" doctor --watch 1s --metrics watch.prom >said &
    pid=$!
    within 30 lines_are said 2
    kill -TERM "$pid"
    exit_of "$pid"
    equal 0 "$code" "exit code after SIGTERM"
    grep -E '^2[0-9-]+ [0-9:]+ UTC  ok  lock [0-9.]+ ms, unlock [0-9.]+ ms' said
    ! grep -v '  ok  ' said || die "a round failed"
    equal 1 "$(value watch.prom 'dlock_canary_ok{file="watch"}')"
    equal 0 "$(value watch.prom 'dlock_canary_failures_total{file="watch"}')"
    between 2 "$(value watch.prom 'dlock_canary_rounds_total{file="watch"}')" 100
    equal 0 "$(value watch.prom 'dlock_clock_steps_total{file="watch"}')"
    between 2 "$(value watch.prom 'dlock_unlocks_total{file="watch",class="dlock-doctor",outcome="ok"}')" 100
    grep -E '^dlock_canary_lock_seconds\{file="watch"\} 0?\.[0-9]' watch.prom
    grep -E '^dlock_check_advice\{file="watch",check="[a-z_ ]+"\} [01]$' watch.prom
    [ "$(sed -n 's/^dlock_doctor_timestamp_seconds{file="watch"} //p' watch.prom)" -ge $(($(date +%s) - 60)) ]
    is_free "dlock-doctor:$(hostname)"
}
shows "rounds, their metrics, and a clean end at SIGTERM" rounds_and_their_end

lines_of_json() {
    local pid
    "$dlock" run x -- true
    "$dlock" --json doctor --watch 1s >said &
    pid=$!
    within 30 lines_are said 2
    kill -INT "$pid" || kill -TERM "$pid" # a background job of this shell ignores SIGINT
    kill -TERM "$pid"
    exit_of "$pid"
    equal 0 "$code"
    head -n 1 said | jq -e '.ok and .status == "OK" and .message == null and .lock_ms > 0 and
        .unlock_ms > 0 and .clock_step_ms == 0 and (.checks | length) > 0'
}
shows "with --json a line is an object" lines_of_json

an_outage() {
    local pid port=$1
    "$dlock" -u "redis://127.0.0.1:$port?restart_guard=0&op_timeout=500ms&connect_timeout=500ms" \
        doctor --watch 1s --metrics watch.prom >said 2>err &
    pid=$!
    within 30 grep -q '  ok  .*; role master.*; advice on append-only file, fsync: ' said
    equal 1 "$(value watch.prom 'dlock_check_found{file="watch",check="role",found="master"}')"
    equal 1 "$(value watch.prom 'dlock_check_advice{file="watch",check="append-only file, fsync"}')"
    equal noeviction "$(sed -n 's/^dlock_check_found{.*check="maxmemory-policy",found="\(.*\)"} 1$/\1/p' watch.prom)"
    equal 0 "$(value watch.prom 'dlock_check_advice{file="watch",check="role"}')"
    redis-cli -p "$port" config set maxmemory 100mb
    redis-cli -p "$port" config set maxmemory-policy allkeys-lru
    within 30 grep -q '  FAILED  .*allkeys-lru: a full server' said
    redis-cli -p "$port" config set maxmemory-policy noeviction
    within 30 sh -c "tail -n 1 said | grep -q '  ok  '"
    redis-cli -p "$port" shutdown nosave || true
    within 30 grep -q '  FAILED  .*refused' said
    equal 0 "$(value watch.prom 'dlock_canary_ok{file="watch"}')"
    [ "$(value watch.prom 'dlock_canary_failures_total{file="watch"}')" -ge 1 ]
    alive "$pid" || die "it ended"
    kill -TERM "$pid"
    exit_of "$pid"
    equal 0 "$code" "exit code after SIGTERM in an outage"
}
outage() {
    export dlock scrape
    # shellcheck disable=SC2163
    export -f die equal within now_ms alive gone exit_of value an_outage
    # shellcheck disable=SC2016
    timeout 120 "$DLOCK_BIN/with_server" redis -- bash -euc 'an_outage "$1"' an_outage '{port}'
}
shows "an outage is reported and outlasted; advice and role are series" outage

wrong_usage() {
    exits 64 "$dlock" doctor --watch 1s --strict
    one_line '--strict and --watch exclude each other'
    exits 64 "$dlock" doctor --metrics x.prom
    one_line '--metrics is for --watch'
    exits 64 "$dlock" doctor --watch 10ms
    one_line '--watch=10ms is not in 1s..1d'
    exits 71 "$dlock" doctor --watch 1s --metrics nowhere/x.prom
    one_line '--metrics=nowhere/x.prom: No such file'
    exits 64 "$dlock" -u nothing://x doctor --watch 1s
}
shows "wrong usage" wrong_usage
tap_end
