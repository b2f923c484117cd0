#!/bin/bash
# Tests: plugins/redlock/inspect.c
# SPDX-License-Identifier: MIT
# commands.sh SOURCE-DIR BIN-DIR PORT...: the command on five nodes that run. TAP.
# shellcheck disable=SC2317 # functions are called by name
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
# shellcheck source=tests/kit/ruler/ruler.sh
. "$1/tests/kit/ruler/ruler.sh"
ruler_begin "$2"
dlock=$2/dlock
shift 2
list=$(printf ',127.0.0.1:%s' "$@")
all="redlock://${list#,}?restart_guard=0&ttl=2s"
dead="redlock://127.0.0.1:$1,127.0.0.1:$2,127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?restart_guard=0"
guarded="redlock://${list#,}?restart_guard=1h&op_timeout=3s"
cd "$tap_tmp" || exit 1

# ends CODE COMMAND...: it does, within 10 s; what it says is in out and err.
ends() {
    local want=$1 got=0
    shift
    timeout 10 "$@" >out 2>err || got=$?
    [ "$got" -eq "$want" ] || { cat out err; echo "exit code $got, want $want: $*"; return 1; }
}

runs_under_the_lock() {
    ends 0 "$dlock" -u "$all" run job -- sh -c "echo \"\$DLOCK_NAME\"; '$dlock' -u '$all' inspect job" &&
        grep -qx job out && grep -q "$(hostname)" out &&
        ends 1 "$dlock" -u "$all" inspect job
}

# The verdict is a majority's; what each node says is there, too.
tells_of_each_node() {
    local some="redlock://127.0.0.1:$1,127.0.0.1:$2,127.0.0.1:$3,127.0.0.1:$4,127.0.0.1:1?restart_guard=0" line
    redis-cli -p "$1" SET 'rl:{alone}' foreign PX 20000 >/dev/null
    ends 1 "$dlock" -u "$some" inspect alone || return 1
    for line in 'state      free' "node       127.0.0.1:$1: held by foreign, [0-9.]* s left" \
        "node       127.0.0.1:$2: free" 'node       127.0.0.1:1: connect: Connection refused'; do
        grep -qx "$line" out && continue
        cat out
        return 1
    done
    ends 1 "$dlock" --json -u "$some" inspect alone || return 1
    jq -e '.held == false and ([.nodes[].status] == ["BUSY", "OK", "OK", "OK", "UNAVAILABLE"])' out
}

keeps_others_out() {
    ends 3 "$dlock" -u "$all" run job -- env -u DLOCK_HELD sh -c "'$dlock' -u '$all' run --nowait job -- touch ran
        [ \$? -eq 75 ] && exit 3" && [ ! -e ran ]
}

readers_together() {
    ends 0 "$dlock" -u "$all" run --shared job -- env -u DLOCK_HELD \
        "$dlock" -u "$all" run --shared --nowait job -- true
}

lists_and_breaks() {
    ends 70 "$dlock" -u "$all" run --ttl 5s a/1 -- sh -c "'$dlock' -u '$all' list a/ &&
        '$dlock' -u '$all' break --yes a/1; exec sleep 8" || return 1
    grep -q ' a/1 ' out || {
        cat out err
        return 1
    }
}

every_key_ends_by_itself() {
    local port key
    for port in "$@"; do
        while read -r key; do
            [ "$(redis-cli -p "$port" PTTL "$key")" -ge 0 ] && continue
            echo "$key does not"
            return 1
        done < <(redis-cli -p "$port" --scan)
    done
}

process_of() {
    redis-cli -p "$1" INFO server | tr -d '\r' | sed -n 's/^process_id://p'
}

# Nodes that accept connections and say nothing: the wait includes connecting (C8). Without that a
# connection is waited for during 5 s.
wait_covers_the_store() {
    local pids start got=0
    pids=$(process_of "$3" && process_of "$4" && process_of "$5")
    # shellcheck disable=SC2086 # a word each
    kill -STOP $pids
    start=$(now_ms)
    ends 69 "$dlock" -u "$all&open=lazy" run --wait 1s job -- touch ran || got=1
    start=$(($(now_ms) - start))
    # shellcheck disable=SC2086
    kill -CONT $pids
    [ "$got" -eq 0 ] && [ ! -e ran ] && lasted 900 "$start" 4500
}

too_few_nodes() {
    ends 69 "$dlock" -u "$dead" run --wait 2s job -- touch ran && [ ! -e ran ] &&
        [ "$(grep -c '^dlock:   127.0.0.1:[0-9]*: ' err)" -eq 5 ] &&
        [ "$(grep -c 'Connection refused' err)" -eq 3 ] && grep -q '2 of 5 nodes' err
}

says_how_long() {
    [ ! -e ran ] &&
        grep -q '5 of 5 nodes were started less than 3600 s ago; a lock from before may still' err &&
        [ "$(grep -c 'restart_guard is 3600 s; no vote for 3[0-9]* s more' err)" -eq 5 ]
}

nodes_without_a_vote() {
    ends 75 "$dlock" -u "$guarded" run --nowait job -- touch ran && says_how_long &&
        ends 75 "$dlock" -u "$guarded" run --wait 1s job -- touch ran && says_how_long &&
        ends 78 "$dlock" -u "${guarded/=1h/=10s}" run job -- true &&
        grep -q 'add restart_guard=30s to the URI of all clients' err
}

check "a command runs under the lock, which inspect shows" runs_under_the_lock
check "inspect tells of each node" tells_of_each_node "$@"
check "others are kept out" keeps_others_out
check "readers run together" readers_together
check "list shows it, break takes it away, and the command ends" lists_and_breaks
check "with 3 of 5 dead it is 69, and a line a node" too_few_nodes
check "a wait ends on time while 3 of 5 say nothing" wait_covers_the_store "$@"
check "nodes that were just started are waited for, and say for how long; a longer ttl is refused" nodes_without_a_vote
check "every key ends by itself" every_key_ends_by_itself "$@"
tap_end
