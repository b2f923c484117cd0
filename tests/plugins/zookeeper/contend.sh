#!/bin/bash
# contend.sh SOURCE-DIR BIN-DIR URI PORT PROCESSES SECONDS LEAST: C1, C6 and C8 for processes that want one
# name, and for processes that want a name each, by their histories; and how many requests the server
# gets for each acquisition.
set -u
source_dir=$1 bin=$2 uri=$3 port=$4 processes=$5 seconds=$6 least=$7
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"

# Requests that the server got, pings among them.
requests() {
    local said

    exec 3<>"/dev/tcp/127.0.0.1/$port" || return
    printf mntr >&3
    said=$(awk '$1 == "zk_packets_received" { print $2 }' <&3)
    exec 3<&-
    [ -n "$said" ] && echo "$said"
}

# contend NAMES: one name or a name each.
contend() {
    local before

    rm -f "$tap_tmp"/*.log
    before=$(requests)
    check "C13 $processes on $1: everybody gets the lock, and no call fails" \
        "$bin/contend" "$uri" "$processes" "$seconds" "$least" "$tap_tmp" "$1"
    spent=$(($(requests) - before))
    taken=$(awk '$1 == "#" && $3 == "acquisitions," { print $2 }' "$tap_tmp/log")
    sed 's/^#* */# /' "$tap_tmp/log"
    echo "# $spent requests"
    check "C1 C6 C8 $processes on $1: claims do not overlap, fences rise, calls return" \
        "$bin/dlock-history-check" --slack 3000 --complete --kept "$tap_tmp"/*.log
}

# requests_at_most COUNT: for an acquisition.
requests_at_most() {
    [ "$taken" -gt 0 ] && [ "$spent" -gt "$taken" ] && [ "$spent" -le $(($1 * taken)) ]
}

contend each
check 'an acquisition costs a handful of requests, with what keeps the sessions' requests_at_most 8
contend one
check 'where processes wait, an end wakes one of them and not all' requests_at_most 24
tap_end
