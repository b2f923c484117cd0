#!/bin/bash
# Tests: cli/child.c cli/supervise.c
# SPDX-License-Identifier: MIT
# Processes that the command of dlock run has started, in groups and sessions of their own: which of them end with it,
# and after a loss at the end of the lease (C14)?
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need setsid timeout setpriv unshare pgrep

# A step of a command: writes its number to the file step, and works until it is ended.
cat >"$tap_tmp/step" <<'STEP'
#!/bin/bash
echo $$ >step.new
mv step.new step
while :; do sleep 0.02; done
STEP
# Hears no SIGTERM, and has a child that starts new ones all the time.
cat >"$tap_tmp/stubborn" <<'STEP'
#!/bin/bash
trap '' TERM
(while :; do setsid sleep 0.05 & sleep 0.01; done) &
echo $! >forker
exec "${0%/*}/step"
STEP
chmod +x "$tap_tmp/step" "$tap_tmp/stubborn"
export step=$tap_tmp/step stubborn=$tap_tmp/stubborn

# begin COMMAND...: a run that holds a; its number is in $pid, that of its step in $child
begin() {
    rm -f step
    "$dlock" run --ttl 6s --kill-after 1s a -- "$@" 2>loss &
    pid=$!
    within 20 test -s step
    child=$(cat step)
}

each_group() {
    "$1" sh -c 'timeout 60 "$step"; true'
    "$1" bash -c 'set -m; "$step" & wait'
    "$1" sh -c 'setsid --wait "$step"; true'
    "$1" sh -c 'setsid -f "$step"; exec sleep 60'
    "$1" sh -c 'setsid --wait "$stubborn"; true'
}

lost() {
    begin "$@"
    exits 0 "$dlock" break a --yes
    exit_of "$pid"
    equal 70 "$code" "exit code of: $*"
    gone "$child" || die "it works on: $*"
}

lost_by_all_ways() {
    each_group lost
    gone "$(cat forker)"
}

# The lease is held for as long as the step works: seen by a run that waits for the name.
signalled() {
    begin "$@"
    "$dlock" run --wait 60s a -- sh -c 'grep -q "^State:.*[RSDT] " "/proc/$0/status" && touch overlap' "$child" &
    kill -TERM "$pid"
    exit_of "$pid"
    equal 143 "$code" "exit code of: $*"
    wait "$!" || true
    [ ! -e overlap ] || die "the name was free while it worked: $*"
    gone "$child"
}

signalled_by_all_ways() {
    each_group signalled
}

# Not by way of dlock: the kernel, a person, Ctrl-C at a terminal.
command_killed() {
    begin sh -c 'echo $$ >shell; setsid --wait "$step"; true'
    kill -KILL "$(cat shell)"
    exit_of "$pid"
    equal 137 "$code" "exit code"
    gone "$child"
    is_free a
}

stopped_step_cleans_up() {
    begin sh -c 'setsid --wait bash -c "trap \"echo cleaned >cleaned; exit\" TERM; echo \$\$ >step
        while :; do sleep 0.02; done"; true'
    kill -STOP "$child"
    kill -TERM "$pid"
    exit_of "$pid"
    equal cleaned "$(cat cleaned)"
}

# The parent ends between its own signal and that of the child: 200 processes are between the two.
orphaned_step_cleans_up() {
    printf '%s\n' '#!/bin/bash' 'trap "echo cleaned >cleaned; exit" TERM' 'echo $$ >step' \
        'while :; do sleep 0.02; done' >cleans
    chmod +x cleans
    begin sh -c 'setsid --wait sh -c "for i in \$(seq 200); do sleep 60 & done; ./cleans; true"; true'
    kill -TERM "$pid"
    exit_of "$pid"
    equal cleaned "$(cat cleaned)"
}

daemon_stays() {
    for code in 0 3; do
        rm -f step
        exits "$code" "$dlock" run a -- sh -c 'setsid -f "$step" >/dev/null 2>&1 </dev/null
            until [ -s step ]; do sleep 0.02; done; exit "$0"' "$code"
        alive "$(cat step)"
        is_free a
        kill -KILL "$(cat step)"
    done
}

# The shell that became dlock had a child before.
elders_stay() {
    bash -c 'sleep 300 & echo $! >elder; exec "$0" run --ttl 6s a -- "$step"' "$dlock" 2>loss &
    pid=$!
    within 20 test -s step
    exits 0 "$dlock" break a --yes
    exit_of "$pid"
    equal 70 "$code" "exit code"
    gone "$(cat step)"
    alive "$(cat elder)"
    kill "$(cat elder)"
}

# has_children PID COUNT: and no zombies
has_children() {
    [ "$(pgrep -c -P "$1")" -eq "$2" ] && [ "$(pgrep -c -r Z -P "$1")" -eq 0 ]
}

orphans_are_reaped() {
    "$dlock" run a -- bash -c 'for i in {1..20}; do (sleep 0.2 & exec true) & done; wait; touch orphans; exec sleep 60' &
    pid=$!
    within 20 test -e orphans
    within 20 has_children "$pid" 1
    kill -TERM "$pid"
    exit_of "$pid"
}

# It has the children of the shell that became dlock.
first_process_reaps() {
    local first command
    "$dlock" run a -- sleep 60 &
    pid=$!
    within 20 held a
    for command in 'run --wait 30s a -- true' 'hold --until signal b' 'doctor --watch 1s'; do
        rm -f go
        # shellcheck disable=SC2086 # words
        unshare --pid --fork --mount-proc bash -c 'for i in {1..10}; do (while [ ! -e go ]; do sleep 0.05; done & exec true) & done
            exec "$0" "$@"' "$dlock" $command >/dev/null 2>err &
        first=$(child_named dlock "$!")
        within 20 has_children "$first" 10
        touch go
        within 20 has_children "$first" 0
        kill -KILL "$first"
        wait "$!" || true
    done
    kill -TERM "$pid"
    exit_of "$pid"
}

# child_named NAME PARENT: the number of the child, once it has become that program
child_named() {
    within 20 pgrep -x -P "$2" "$1"
    pgrep -x -P "$2" "$1"
}

# A run of the user nobody: the program "as" makes its step root's.
nobody_runs() {
    rm -f step
    setpriv --reuid 65534 --regid 65534 --clear-groups "$dlock" run --ttl 6s --kill-after 100ms a -- \
        sh -c 'setsid ./as --reuid 0 --regid 0 --clear-groups ./worker & wait' 2>loss &
    pid=$!
    within 20 test -s step
}

told() {
    grep -qF "process $(cat step) (worker) of another user cannot be ended; $1" loss
}

of_another_user() {
    chmod 755 "$tap_tmp"
    chown 65534 .
    cp "$(command -v setpriv)" as
    chmod 4755 as
    cp "$step" worker
    nobody_runs
    kill -TERM "$pid"
    within 20 told 'the lock is kept until it ends, or another signal comes'
    alive "$pid"
    held a
    kill -KILL "$(cat step)"
    exit_of "$pid"
    equal 143 "$code" "exit code"
    is_free a
    nobody_runs
    kill -TERM "$pid"
    within 20 told "the lock is kept"
    kill -TERM "$pid"
    exit_of "$pid"
    alive "$(cat step)"
    is_free a
    kill -KILL "$(cat step)"
    nobody_runs
    exits 0 "$dlock" break a --yes
    exit_of "$pid"
    equal 70 "$code" "exit code"
    told 'it runs on without the lock'
    kill -KILL "$(cat step)"
}

shows "loss: no process of the command works on, whatever its group or session" lost_by_all_ways
shows "SIGTERM to dlock: the name is not free before all processes of the command have ended" signalled_by_all_ways
shows "a command that a signal ends leaves no process behind" command_killed
shows "a stopped process of the command is woken to clean up" stopped_step_cleans_up
shows "a process whose parent the same SIGTERM ends cleans up, too" orphaned_step_cleans_up
shows "a daemon outlives the command that exits by itself, with any code" daemon_stays
shows "processes that were there before the command are left alone" elders_stay
shows "orphans of the command are reaped while it runs" orphans_are_reaped
shows "the first process of a container reaps orphans: run while it waits, hold, doctor" first_process_reaps
shows "a process of another user: the lock is kept until it ends; after a loss a line names it" of_another_user
tap_end
