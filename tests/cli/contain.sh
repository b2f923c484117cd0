#!/bin/bash
# Tests: cli/contain.c cli/child.c
# SPDX-License-Identifier: MIT
# dlock run --contain: does each process of the command end with it (C14), and does the command notice little of it?
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need setsid setpriv unshare stat

# Writes to the file work until it is ended. The shell that starts it by "$escape" ends at once: its parent is the init.
cat >"$tap_tmp/works" <<'WORKS'
#!/bin/bash
trap '' TERM HUP INT
while :; do echo >>work; sleep 0.01; done
WORKS
chmod +x "$tap_tmp/works"
export works=$tap_tmp/works
export escape='(setsid "$works" >/dev/null 2>&1 </dev/null &); until [ -s work ]; do sleep 0.02; done'

# Two looks, between which it would have written often.
ended() {
    local size
    [ -s work ] || die "it has never worked"
    size=$(stat -c %s work)
    sleep 0.3
    equal "$size" "$(stat -c %s work)" "size of the file that it wrote"
    rm work
}

contained() {
    "$dlock" run --contain a -- "$@"
}

ends_with_the_command() {
    exits 0 "$dlock" run --contain a -- bash -c "$escape"
    ended
    exits 7 "$dlock" run --contain a -- bash -c "$escape; exit 7"
    ended
    exits 137 "$dlock" run --contain a -- bash -c "$escape; kill -KILL \$\$"
    ended
    is_free a
}

# begin: a run in the background; its number is in $pid
begin() {
    "$dlock" run --ttl 6s --kill-after 200ms --contain a -- bash -c "$escape; sleep 60; true" 2>loss &
    pid=$!
    within 20 test -s work
}

ends_with_dlock() {
    begin
    kill -KILL "$pid"
    exit_of "$pid"
    exits 0 "$dlock" run --wait 20s a -- true
    ended
}

ends_with_a_stopped_dlock() {
    begin
    kill -STOP "$pid"
    kill -KILL "$pid"
    exit_of "$pid"
    exits 0 "$dlock" run --wait 20s a -- true
    ended
}

ends_after_a_loss() {
    begin
    exits 0 "$dlock" break a --yes
    exit_of "$pid"
    equal 70 "$code" "exit code"
    ended
}

ends_after_a_signal() {
    begin
    kill -TERM "$pid"
    exit_of "$pid"
    equal 143 "$code" "exit code"
    ended
    is_free a
}

codes_and_signals() {
    exits 0 "$dlock" run --contain a -- true
    exits 7 "$dlock" run --contain a -- sh -c 'exit 7'
    exits 143 "$dlock" run --contain a -- sh -c 'kill -TERM $$'
    exits 127 "$dlock" run --contain a -- ./nothing
    grep -q 'nothing: No such file' err
    exits 126 "$dlock" run --contain a -- "$PWD"
    "$dlock" run --contain a -- bash -c 'trap "echo heard >heard; exit 5" USR1; touch ready
        while :; do sleep 0.02; done' &
    pid=$!
    within 20 test -e ready
    kill -USR1 "$pid"
    exit_of "$pid"
    equal 5 "$code" "exit code"
    equal heard "$(cat heard)"
}

streams() {
    equal in "$(echo in | contained cat)" "standard input and output"
}

own_numbers() {
    equal 2 "$(contained sh -c 'echo $$')" "number of the command"
    equal "1 2 " "$(contained bash -c 'cd /proc; for i in [0-9]*; do printf "%s " "$i"; done')" "processes in /proc"
    equal "$(id -u) $(id -g)" "$(contained sh -c 'echo "$(id -u) $(id -g)"')" "user and group"
}

reaps() {
    contained bash -c 'for i in {1..20}; do (sleep 0.05 & exec true) & done; wait
        until [ "$(pgrep -c .)" -le 3 ]; do sleep 0.02; done'
}

in_itself() {
    equal 2 "$(contained "$dlock" run --contain b -- sh -c 'echo $$')" "number of the inner command"
}

# In front of a command: as a user without privileges
as_user=(env)
[ "$(id -u)" != 0 ] || as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)

as_an_ordinary_user() {
    chmod 755 "$tap_tmp"
    chmod 777 .
    if ! "${as_user[@]}" unshare --user --pid --fork true; then
        exits 78 "${as_user[@]}" "$dlock" run --contain a -- true
        return
    fi
    exits 5 "${as_user[@]}" "$dlock" run --contain a -- bash -c "id -u >user; $escape; exit 5"
    equal "$("${as_user[@]}" id -u)" "$(cat user)" "user"
    ended
}

# In a user namespace that may have no further ones; where there are none, as in another root, as an ordinary user.
refused() {
    local without=(unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_pid_namespaces; exec "$0" "$@"')
    unshare --user true 2>/dev/null || { without=("${as_user[@]}") && chmod 755 "$tap_tmp" && chmod 777 .; }
    exits 78 "${without[@]}" "$dlock" run --contain --status-fd 1 a -- touch ran
    one_line '--contain: .*run dlock as root, .*no lock was taken$'
    ! grep -q acquired out || die "it took the lock"
    [ ! -e ran ]
    [ ! -e locks.db ]
}

excludes() {
    exits 64 "$dlock" run --contain --join a -- true
    exits 64 "$dlock" run --contain --on-lost warn a -- true
    one_line '--contain excludes'
}

shows "contain: a double fork in a session of its own ends with the command" ends_with_the_command
shows "contain: all of it ends with dlock, before the name is free" ends_with_dlock
shows "contain: ... also of a dlock that is stopped" ends_with_a_stopped_dlock
shows "contain: all of it ends after a loss" ends_after_a_loss
shows "contain: all of it has ended when a signal has ended the run" ends_after_a_signal
shows "contain: exit codes, signals, a command that is not there" codes_and_signals
shows "contain: standard input and output" streams
shows "contain: numbers of its own, a /proc of its own, the same user" own_numbers
shows "contain: orphans are reaped" reaps
shows "contain: in a contained run" in_itself
shows "contain: a user without privileges" as_an_ordinary_user
shows "contain: where it is not allowed, a line says so and no lock is taken" refused
shows "contain: what it excludes" excludes
tap_end
