#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs COMMAND URI once the store grants: servers that were started a moment ago have the failover
# guard, each master its own. The names are at three masters of a cluster of three.
# usage: guarded.sh DLOCK URI COMMAND [ARGUMENT...]
set -u
dlock=$1 uri=$2
shift 2

for name in a b c; do
    "$dlock" -u "$uri" run --wait 300s "$name" true &
done
for job in $(jobs -p); do
    wait "$job" || exit 1
done
exec "$@" "$uri"
