#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs one program of dlock's kit beside a server of its own, on a free port.
#
#     test.sh PROGRAM SERVER PLUGIN [OPTION...]
#
# PROGRAM: dlock-conformance, or dlock-slot-check, which also stops the server.
set -u
program=$1 server=$2 plugin=$3
shift 3

out=$(mktemp)
"$server" >"$out" &
pid=$!
trap 'kill -CONT "$pid"; kill "$pid"; rm -f "$out"' EXIT
until port=$(sed -n 's/^listening //p' "$out") && [ -n "$port" ]; do
    kill -0 "$pid" || exit 1
    sleep 0.1
done

case $program in
*slot-check)
    "$program" --slack 300 --proxy "127.0.0.1:$port" \
        --stop-cmd "kill -STOP $pid" --cont-cmd "kill -CONT $pid" \
        "$@" "$plugin" "tcplease://127.0.0.1:$port"
    ;;
*)
    DLOCK_PLUGIN_PATH=$(dirname "$plugin")
    export DLOCK_PLUGIN_PATH
    "$program" --slack 300 --expect FENCE "$@" "tcplease://127.0.0.1:$port"
    ;;
esac
