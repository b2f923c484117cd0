#!/bin/bash
# contend.sh SOURCE-DIR BIN-DIR URI PROCESSES SECONDS LEAST: C1, C6 and C8 for processes that want one
# name, by their histories.
set -u
source_dir=$1 bin=$2 uri=$3 processes=$4 seconds=$5 least=$6
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"

check "C13 everybody gets the lock, and no call fails" \
    "$bin/contend" "$uri" "$processes" "$seconds" "$least" "$tap_tmp"
sed 's/^#* */# /' "$tap_tmp/log"
check "C1 C6 C8 claims do not overlap, fences rise, calls return" \
    "$bin/dlock-history-check" --slack 1000 --complete --kept "$tap_tmp"/*.log
tap_end
