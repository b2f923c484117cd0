#!/bin/bash
# etcdctl.sh SOURCE-DIR BIN-DIR PORT TURNS: C1 and C13 between `dlock run` and `etcdctl lock`, which
# wait in one queue for one name and add to one number in a file.
set -u
source_dir=$1 dlock=$2/dlock port=$3 turns=$4
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
cd "$tap_tmp" || exit 1
export ETCDCTL_API=3 DLOCK_URI="etcd://127.0.0.1:$port"

ctl() {
    etcdctl --endpoints "127.0.0.1:$port" "$@"
}

# Reads, lets others run, writes.
cat >add <<'END'
n=$(cat number)
sleep 0.002
echo $((n + 1)) >number
END

# keys NAME: how many holders and waiters it has.
keys() {
    ctl get --prefix --keys-only "$1/" | grep -c /
}

# keys_are NAME COUNT: waits for that.
keys_are() {
    for _ in {1..400}; do
        [ "$(keys "$1")" = "$2" ] && return
        sleep 0.025
    done
    echo "$1 has $(keys "$1") keys, not $2"
    return 1
}

by_dlock() {
    for ((i = 0; i < turns; i++)); do
        "$dlock" run --wait 60s job -- bash add || return
    done
}

by_etcdctl() {
    for ((i = 0; i < turns; i++)); do
        ctl lock job -- bash add >/dev/null || return
    done
}

both_add() {
    echo 0 >number
    by_dlock &
    local dlock_pid=$!
    by_etcdctl || return
    wait "$dlock_pid" || return
    same $((2 * turns)) "$(cat number)" && keys_are job 0
}

# The same without locks: the test would notice.
without_locks() {
    echo 0 >number
    for _ in 1 2; do
        for ((i = 0; i < 25; i++)); do
            bash add
        done &
    done
    wait
    same 50 "$(cat number)"
}

# Programs of both kinds come one by one while the name is held, and get it in that order.
in_order() {
    local i pids=()

    : >order
    : >go
    "$dlock" run line -- bash -c 'while [ -e go ]; do sleep 0.02; done' &
    pids+=($!)
    keys_are line 1 || return
    for i in 1 2 3 4 5 6; do
        if ((i % 2)); then
            ctl lock line -- bash -c "echo $i >>order" >/dev/null &
        else
            "$dlock" run --wait 60s line -- bash -c "echo $i >>order" &
        fi
        pids+=($!)
        keys_are line $((i + 1)) || return
    done
    rm go
    wait "${pids[@]}"
    same '1 2 3 4 5 6' "$(paste -sd ' ' order)"
}

# held NAME WORDS...: a dlock that holds the name; etcdctl gets it when that ends, and not before.
held() {
    local name=$1 holder ctl_pid

    : >go
    : >order
    "$dlock" run "${@:2}" "$name" -- bash -c 'while [ -e go ]; do sleep 0.02; done; echo dlock >>order' &
    holder=$!
    keys_are "$name" 1 || return
    ctl lock "$name" -- bash -c 'echo etcdctl >>order' >/dev/null &
    ctl_pid=$!
    keys_are "$name" 2 || return
    sleep 0.3
    rm go
    wait "$holder" "$ctl_pid"
    same 'dlock etcdctl' "$(paste -sd ' ' order)"
}

# An etcdctl that holds the name is shown, and refuses writers and readers of dlock.
foreign() {
    local ctl_pid

    : >go
    ctl lock foreign -- bash -c 'while [ -e go ]; do sleep 0.02; done' >/dev/null &
    ctl_pid=$!
    keys_are foreign 1 || return
    "$dlock" run --nowait foreign -- true 2>/dev/null
    same 75 $? || return
    "$dlock" run --nowait --shared foreign -- true 2>/dev/null
    same 75 $? || return
    "$dlock" inspect foreign || return
    rm go
    wait "$ctl_pid"
    "$dlock" run --nowait foreign -- true
}

# What etcdctl says is the revision is what fence_scale=1 gives.
fences() {
    local before now after

    before=$(ctl lock fence -- bash -c 'echo $ETCD_LOCK_REV' | tail -n 1) || return
    now=$("$dlock" run -u "$DLOCK_URI?fence_scale=1" fence -- bash -c 'echo $DLOCK_FENCE') || return
    after=$(ctl lock fence -- bash -c 'echo $ETCD_LOCK_REV' | tail -n 1) || return
    echo "$before $now $after"
    ((before < now && now < after))
}

check "C1 dlock and etcdctl lose no addition in $turns turns each" both_add
check_not 'without locks they do' without_locks
check 'C13 both wait in one queue, in the order of arrival' in_order
check 'C1 a writer of dlock keeps etcdctl out' held writer
check 'C1 C12 a reader of dlock keeps etcdctl out' held reader --shared
check 'C1 C12 etcdctl keeps writers and readers of dlock out' foreign
check 'C6 with fence_scale=1 the fences of both are one series' fences
tap_end
