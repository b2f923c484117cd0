#!/bin/bash
# Tests: cli/acquire.c cli/lock_options.c
# SPDX-License-Identifier: MIT
# dlock run --ttl none: the lease ends with its processes only (C23).
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"

remaining() {
    "$dlock" inspect a | sed -n 's/^remaining  *//p'
}

# begin [OPTION...]: a run that tells its fence and works until the file go is there; its number is in $pid, that of its
# command in $command
begin() {
    rm -f go started
    "$dlock" run "$@" a -- bash -c 'echo $$ "$DLOCK_FENCE" >started.new; mv started.new started
        until [ -e go ]; do sleep 0.02; done; echo "$DLOCK_FENCE" >after' 2>err &
    pid=$!
    within 20 test -s started
    read -r command fence <started
}

stop() {
    kill -STOP "$pid" "$command"
}

continues() {
    kill -CONT "$command" "$pid" || true
    touch go
    exit_of "$pid"
    equal "$1" "$code" "exit code: $(cat err)"
}

# 2.5 s are more than two ttls of the URI that others use.
stopped_for_long() {
    begin --ttl none "$@"
    equal "while its process lives" "$(remaining)" "remaining"
    stop
    exits 75 "$dlock" -u "$store?ttl=1s" run --wait 2500ms a -- touch overlap
    continues 0
    equal "$fence" "$(cat after)" "fence"
    [ ! -e overlap ]
    is_free a
}

stopped() {
    stopped_for_long
    stopped_for_long --shared
    stopped_for_long --limit 1
}

with_a_ttl() {
    begin --ttl 1s
    stop
    exits 0 "$dlock" run --wait 20s a -- true
    continues 137
    export DLOCK_URI="$store?ttl=none"
    begin
    equal "while its process lives" "$(remaining)" "remaining"
    continues 0
}

broken() {
    begin --ttl none
    exits 0 "$dlock" break a --yes
    exits 0 "$dlock" run --nowait a -- true
    exit_of "$pid"
    equal 70 "$code" "exit code"
}

killed() {
    begin --ttl none
    stop
    kill -KILL "$pid"
    exits 0 "$dlock" run --wait 20s a -- true
    exit_of "$pid"
}

has_a_waiter() {
    "$dlock" inspect a | grep -q '^waiters  *1$'
}

from_the_queue() {
    begin --ttl none
    "$dlock" run --ttl none --wait 60s a -- bash -c '"$0" inspect a >inside; sleep 60' "$dlock" &
    waiter=$!
    within 20 has_a_waiter
    continues 0
    within 20 grep -q 'while its process lives' inside
    kill "$waiter"
    wait "$waiter" || true
}

kept_by_time() {
    exits 0 "$dlock" run --ttl none --keep 300ms a -- true
    exits 0 "$dlock" run --wait 20s a -- true
}

refused() {
    exits 78 "$dlock" acquire --ttl none a
    one_line 'ttl=none: a lease that outlives its process needs a ttl'
    exits 0 "$dlock" acquire --ttl 10s a
    exits 78 "$dlock" renew --ttl none --token "$(cut -d' ' -f1 out)" a
    begin --wait 20s
    touch go
    exit_of "$pid"
}

shows "a run without a ttl goes on after any stop, with its fence, and nobody else got the name" stopped
shows "with a ttl it ends by time; the URI may say none" with_a_ttl
shows "break takes the name away" broken
shows "a killed run frees the name at once" killed
shows "a waiter gets such a lease, too" from_the_queue
shows "a name is kept by time" kept_by_time
shows "a lease that outlives its process needs a ttl" refused
tap_end
