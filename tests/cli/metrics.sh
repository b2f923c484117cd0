#!/bin/bash
# Tests: cli/metrics_file.c cli/outcome.c
# SPDX-License-Identifier: MIT
# Is what --metrics writes what Prometheus reads: by the OpenMetrics parser of its client library, and by
# the textfile collector of its node exporter? Is the file always whole, and is each failure told?
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need prometheus-node-exporter /usr/bin/python3
/usr/bin/python3 -c 'import prometheus_client' || die "Bail out! prometheus_client is not installed"
scrape=$(realpath "$(dirname "$0")")/scrape.py

# value FILE SERIES: its number, as the parser of OpenMetrics reads it
value() {
    /usr/bin/python3 "$scrape" file "$1" "$2"
}

# series FILE SERIES NUMBER
series() {
    equal "$3" "$(value "$1" "$2")" "$2"
}

a_run_that_ends() {
    exits 3 "$dlock" run --metrics nightly.prom order:4711 -- sh -c 'sleep 0.3; exit 3'
    series nightly.prom 'dlock_acquisitions_total{file="nightly",class="order",outcome="ok"}' 1
    series nightly.prom 'dlock_unlocks_total{file="nightly",class="order",outcome="ok"}' 1
    series nightly.prom 'dlock_held{file="nightly",class="order"}' 0
    series nightly.prom 'dlock_hold_seconds_count{file="nightly",class="order"}' 1
    series nightly.prom 'dlock_hold_seconds_bucket{file="nightly",class="order",le="0.262144"}' 0
    series nightly.prom 'dlock_unknown_exchanges_total{file="nightly",class="order"}' 0
    series nightly.prom 'dlock_run_exit_code{file="nightly"}' 3
    between $(($(date +%s) - 60)) "$(value nightly.prom 'dlock_run_end_timestamp_seconds{file="nightly"}')" "$(date +%s)"
    ! grep 4711 nightly.prom || die "a name"
    equal nightly.prom "$(echo nightly*)" "what is left in the folder"
}
shows "a run that ends: counts, times, exit code, and no name" a_run_that_ends

a_run_that_waits() {
    local waiter
    "$dlock" run order:1 -- sleep 300 &
    within 20 held order:1
    "$dlock" run --metrics wait.prom order:1 -- true &
    waiter=$!
    within 30 grep -F 'dlock_waiting{file="wait",class="order"} 1' wait.prom
    equal none "$(value wait.prom 'dlock_run_exit_code{file="wait"}')"
    kill "$waiter"
    exit_of "$waiter"
    series wait.prom 'dlock_waiting{file="wait",class="order"}' 0
    series wait.prom 'dlock_acquisitions_total{file="wait",class="order",outcome="canceled"}' 1
    series wait.prom 'dlock_run_exit_code{file="wait"}' 143
    exits 75 "$dlock" run --nowait --metrics wait.prom order:1 -- true
    series wait.prom 'dlock_acquisitions_total{file="wait",class="order",outcome="busy"}' 1
}
shows "a run that waits, and one that does not get the lock" a_run_that_waits

a_loss() {
    local pid
    "$dlock" run --ttl 1s --metrics loss.prom job/1 -- sleep 300 2>err &
    pid=$!
    within 20 held job/1
    "$dlock" break --yes job/1
    exit_of "$pid"
    equal 70 "$code"
    series loss.prom 'dlock_losses_total{file="loss",class="job",reason="taken"}' 1
    series loss.prom 'dlock_unlocks_total{file="loss",class="job",outcome="lost"}' 1
}
shows "a loss and its reason" a_loss

it_is_always_whole() {
    local pid lines=0 n=0
    "$dlock" run --metrics whole.prom x -- true
    while [ "$n" -lt 10 ]; do
        "$dlock" run --metrics whole.prom x -- true &
        pid=$!
        while alive "$pid"; do
            equal '# EOF' "$(tail -n 1 whole.prom)" "the last line"
            lines=$((lines + 1))
        done
        wait "$pid"
        n=$((n + 1))
    done
    [ "$lines" -gt 10 ] || die "read $lines times only"
}
shows "a reader never gets half of it" it_is_always_whole

odd_names() {
    exits 0 "$dlock" run --metrics 'a "b\c' 'q"\:1' -- true
    series 'a "b\c' 'dlock_held{file="a \"b\\x5cc",class="q\"\\x5c"}' 0
    series 'a "b\c' 'dlock_run_exit_code{file="a \"b\\x5cc"}' 0
}
shows "quotes and backslashes in names" odd_names

failures() {
    exits 71 "$dlock" run --metrics nowhere/x.prom x -- touch ran
    one_line '--metrics=nowhere/x.prom: No such file'
    [ ! -e ran ] || die "the command ran"
    exits 71 "$dlock" run --metrics ./ x -- touch ran
    mkdir gone
    exits 0 "$dlock" run --metrics gone/x.prom x -- rm -r gone
    one_line '--metrics=gone/x.prom: No such file'
}
shows "a file that cannot be written is an error at the start, and a line at the end" failures

collector() {
    local port
    mkdir prom
    "$dlock" run --metrics prom/nightly.prom order:1 -- true
    "$dlock" run --metrics prom/hourly.prom order:2 -- true
    prometheus-node-exporter --web.listen-address=127.0.0.1:0 --collector.disable-defaults \
        --collector.textfile --collector.textfile.directory="$PWD/prom" 2>exporter &
    within 30 grep -q 'Listening on' exporter
    port=$(sed -n 's/.*Listening on.*address=127.0.0.1:\([0-9]*\).*/\1/p' exporter)
    /usr/bin/python3 "$scrape" url "http://127.0.0.1:$port/metrics" >page
    grep -x 'node_textfile_scrape_error 0' page
    for file in nightly hourly; do
        grep -xF "dlock_acquisitions_total{class=\"order\",file=\"$file\",outcome=\"ok\"} 1" page
        grep -xF "dlock_hold_seconds_count{class=\"order\",file=\"$file\"} 1" page
        grep -xF "dlock_run_exit_code{file=\"$file\"} 0" page
    done
    grep -x '# TYPE dlock_hold_seconds histogram' page
    ! grep -i error exporter || die "the exporter complains"
}
shows "the textfile collector serves the files of two runs" collector
tap_end
