#!/bin/bash
# SPDX-License-Identifier: MIT
# Does dlock-torture work with a store of others, by its URI and four commands? The example plugin keeps
# its promises, a server that forgets its locks is found out, and so is one that lets everybody in.
#
#     test_uri.sh SOURCE-DIR DLOCK-TORTURE PLUGIN-DIR SERVER C-COMPILER
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
source_dir=$1 torture=$2 server=$4 cc=$5
export DLOCK_PLUGIN_PATH=$3

# The commands, as an author of a plugin would write them.
cat >"$tap_tmp/start" <<'SCRIPT'
cd "$1" || exit
rm -f out
"$2" --port "$3" >out &
echo $! >pid
until grep -q listening out; do
    kill -0 "$(cat pid)" || exit 1
    sleep 0.05
done
SCRIPT

# A port that is free: a server that took any, and is gone.
port=
port_find() {
    sh "$tap_tmp/start" "$tap_tmp" "$server" 0 && port=$(sed -n 's/^listening //p' "$tap_tmp/out")
    kill -KILL "$(cat "$tap_tmp/pid")"
    [ -n "$port" ]
}

# tortured STATUS SERVER OPTION...: ends so.
tortured() {
    local status=0 wanted=$1 program=$2
    shift 2
    "$torture" --uri "tcplease://127.0.0.1:$port" --slack 4000 \
        --start-cmd "sh '$tap_tmp/start' '$tap_tmp' '$program' $port" \
        --stop-cmd "kill -STOP \$(cat '$tap_tmp/pid')" \
        --cont-cmd "kill -CONT \$(cat '$tap_tmp/pid')" \
        --kill-cmd "kill -KILL \$(cat '$tap_tmp/pid')" "$@" >"$tap_tmp/said" 2>&1 || status=$?
    cat "$tap_tmp/said"
    same "$wanted" "$status"
}

gone() {
    ! readlink "/proc/$(cat "$tap_tmp/pid")/exe"
}

everybody_in() {
    sed 's/if (lease != NULL \&\& strcmp(lease->token, token) != 0)/if (lease == \&(struct lease){0})/' \
        "$source_dir/examples/plugin-tcplease/server.c" >"$tap_tmp/wrong.c"
    ! cmp -s "$tap_tmp/wrong.c" "$source_dir/examples/plugin-tcplease/server.c" &&
        "$cc" -std=c11 -D_GNU_SOURCE -o "$tap_tmp/wrong" "$tap_tmp/wrong.c"
}

check "there is a port" port_find
# A plan in which the server is stopped.
seed=0
seed_find() {
    for ((seed = 1; seed <= 20; seed++)); do
        tortured 0 "$server" --duration 6s --seed "$seed" --proxy "127.0.0.1:$port" --plan >"$tap_tmp/plan" || return
        grep -q SERVER_STOP "$tap_tmp/plan" && return
    done
    false
}

check "there is a plan that stops the server" seed_find
check "a store that is as it says passes" \
    tortured 0 "$server" --duration 6s --seed "$seed" --proxy "127.0.0.1:$port"
check "its server was stopped" grep -E 'server stopped +[1-9][0-9]* effective' "$tap_tmp/said"
check "and the run ends what it started" gone
check "a server that forgets its locks is found out" \
    tortured 0 "$server" --profile C-amnesia --duration 60s --until-seen
check "a server that lets everybody in is built" everybody_in
check "and found out" tortured 1 "$tap_tmp/wrong" --duration 2s
check "a start that fails is told" tortured 2 /none --duration 2s
check "so it is" grep -F 'dlock-torture: the command of --start-cmd failed' "$tap_tmp/said"
check "--backend beside --uri is a mistake in use" tortured 2 "$server" --backend redis
check "a proxy for another address, too" tortured 2 "$server" --proxy 127.0.0.2:1
check "so it is" grep -F 'does not have the address of --proxy' "$tap_tmp/said"
[ ! -e "$tap_tmp/pid" ] || kill -KILL "$(cat "$tap_tmp/pid")" 2>/dev/null
tap_end
