#!/bin/bash
# commands.sh SOURCE-DIR BIN-DIR URI LEASED: `dlock run` on a strategy of mysql. LEASED is 1 where a dead
# holder's lock lasts its ttl, 0 where it ends with the connection.
set -u
source_dir=$1 dlock=$2/dlock uri=$3 leased=$4
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
# shellcheck source=tests/kit/ruler/ruler.sh
. "$source_dir/tests/kit/ruler/ruler.sh"
ruler_begin "$2"
cd "$tap_tmp" || exit 1
export DLOCK_URI=$uri

# until_there FILE: in 20 s.
until_there() {
    for _ in {1..400}; do
        [ -e "$1" ] && return
        sleep 0.05
    done
    echo "no $1"
    return 1
}

# A holder of the name with a ttl; its pid is in holder.
hold() {
    "$dlock" run --ttl "$2" "$1" -- sh -c 'touch "$1"; exec sleep 60' sh "$1.runs" &
    holder=$!
    until_there "$1.runs"
}

# frees NAME LEAST MOST: a waiter gets it after so many ms.
frees() {
    local began
    began=$(now_ms)
    "$dlock" run --wait 30s "$1" -- true || return
    lasted "$2" $(($(now_ms) - began)) "$3"
}

exit_codes() {
    "$dlock" run x -- true || return
    "$dlock" run x -- sh -c 'exit 7'
    [ $? -eq 7 ] || return
    "$dlock" inspect x
    [ $? -eq 1 ]
}

busy() {
    hold busy 30s || return
    "$dlock" run --nowait busy -- touch ran
    local status=$?
    kill "$holder"
    wait "$holder"
    [ "$status" -eq 75 ] && [ ! -e ran ]
}

# Eight at once add to a number in a file, and show their fences.
no_update_is_lost() {
    echo 0 >number
    for _ in {1..8}; do
        (for _ in {1..5}; do
            # shellcheck disable=SC2016
            "$dlock" run --wait 60s sum -- sh -c \
                'n=$(cat number); sleep 0.01; echo $((n + 1)) >number; echo "$DLOCK_FENCE" >>fences'
        done) &
    done
    wait
    sort -n -c fences && [ "$(sort -u fences | wc -l)" -eq 40 ] && [ "$(cat number)" -eq 40 ]
}

killed_holder() {
    local ttl=3s least=1000 # it may have been renewed at a third of its ttl
    [ "$leased" -eq 1 ] || ttl=20s least=0
    hold dead "$ttl" || return
    kill -KILL "$holder"
    wait "$holder" 2>/dev/null
    frees dead "$least" 9000
}

killed_waiter() {
    local waiter
    hold wanted 30s || return
    "$dlock" run --ttl 1s --wait 60s wanted -- touch waiter-ran & # what it asked may be executed after its death
    waiter=$!
    sleep 1
    kill -KILL "$waiter"
    wait "$waiter" 2>/dev/null
    kill "$holder"
    wait "$holder"
    frees wanted 0 3000 && [ ! -e waiter-ran ]
}

stopped_holder() {
    local status expected=137 # the kernel ends it (C25)
    [ "$leased" -eq 1 ] || expected=70
    hold stopped 3s || return
    kill -STOP "$holder"
    frees stopped 1000 9000
    status=$?
    kill -CONT "$holder"
    wait "$holder"
    local code=$?
    echo "the stopped one ended with $code"
    [ "$status" -eq 0 ] && [ "$code" -eq "$expected" ]
}

# counted NAME COUNT: so many wait for it, within 20 s.
counted() {
    for _ in {1..200}; do
        "$dlock" --json inspect "$1" | grep -q "\"waiters\": $2," && return
        sleep 0.1
    done
    "$dlock" inspect "$1"
    return 1
}

# The one that polls, too. Strategy session does not know.
waiters_are_counted() {
    local pids=() pid status=0
    hold crowded 30s || return
    for _ in 1 2 3; do
        "$dlock" run crowded -- true &
        pids+=($!)
    done
    if [ "$leased" -eq 1 ]; then
        counted crowded 3 || status=1
    else
        counted crowded null || status=1
    fi
    kill "${pids[@]}" "$holder"
    for pid in "${pids[@]}" "$holder"; do
        wait "$pid"
    done
    return "$status"
}

check "C7 exit codes" exit_codes
check "C13 inspect counts the waiters" waiters_are_counted
check "TRY-3 a held lock is busy" busy
check "C1 C6 no update is lost, and fences rise" no_update_is_lost
check "TRY-2 a killed holder" killed_holder
check "C13 a killed waiter delays nobody" killed_waiter
check "C5 a stopped holder is lost to it, and the lock to be had" stopped_holder
tap_end
