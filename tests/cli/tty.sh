#!/bin/bash
# Tests: cli/child.c cli/contain.c
# SPDX-License-Identifier: MIT
# dlock run at a terminal: reading, Ctrl-C, Ctrl-Z, pipelines, scripts. script(1) makes the terminal.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need script

run=run

# typing COMMAND [WORD KEYS]...: runs it at a terminal of its own; when a line of the screen matches
# WORD, KEYS are typed (printf's escapes). What the screen showed is in the file screen, the
# command's exit code in $code.
typing() {
    local command=$1
    shift
    : >screen
    code=0
    keys "$@" | timeout 30 script -qefc "exec $command" screen >/dev/null || code=$?
}

# Keeps the keyboard connected until the command has ended: its end would be a Ctrl-D.
keys() {
    while [ $# -gt 0 ]; do
        within 20 grep -q -- "$1" screen
        printf '%b' "$2"
        shift 2
    done
    within 20 grep -q '^Script done' screen
}

# An interactive shell with job control that shows "prompt>" and has the function d for dlock.
shell_at_terminal() {
    printf 'PS1="prompt> "; bind "set enable-bracketed-paste off"\nd() { "%s" "$@"; }\n' "$dlock" >rc
    typing 'bash --noprofile --rcfile rc -i' "$@"
}

# job TEXT: the file job is a script
job() {
    printf '#!/bin/bash\n%s\n' "$1" >job
    chmod +x job
}

screen_shows() {
    grep -q -- "$1" screen || die "the screen does not show '$1': $(cat -v screen)"
}

screen_hides() {
    ! grep -q -- "$1" screen || die "the screen shows '$1': $(cat -v screen)"
}

has_the_terminal() {
    job 'read -ra f </proc/self/stat; echo "group ${f[4]} foreground ${f[7]}"'
    typing "$dlock $run x ./job"
    equal 0 "$code" "exit code"
    screen_shows 'group \([0-9]*\) foreground \1'
}

reads_from_it() {
    job 'echo ready; read -r l; echo "got $l"; exit 3'
    typing "$dlock $run x ./job" ready 'hello\n'
    equal 3 "$code" "exit code"
    screen_shows 'got hello'
}

gives_it_back() {
    job 'echo ready; read -r l; echo "got $l"; exit 4'
    typing "bash -c '\"$dlock\" run x true; ./job'" ready 'hello\n'
    equal 4 "$code" "exit code"
    screen_shows 'got hello'
}

ctrl_c() {
    job 'echo ready; sleep 30'
    typing "$dlock $run x ./job" ready '\x03'
    equal 130 "$code" "exit code"
    is_free x
}

ctrl_c_ends_a_loop() {
    job 'echo ready; sleep 3'
    printf 'for i in 1 2 3; do "$1" run x ./job; done\necho survived\n' >loop
    typing "bash loop $dlock" ready '\x03'
    screen_hides survived
    is_free x
}

ctrl_c_while_waiting() {
    "$dlock" run x -- sleep 60 &
    within 20 held x
    typing "sh -c 'echo start; sleep 0.3; exec \"$dlock\" run x -- touch ran'" start '\x03'
    equal 130 "$code" "exit code"
    typing "sh -c 'echo start; exec \"$dlock\" run x -- touch ran'" start '' start "$(sleep 0.5)\x03"
    equal 130 "$code" "exit code"
    [ ! -e ran ]
}

ctrl_z_and_fg() {
    job 'echo ready; read -r l; echo "got $l"; exit 3'
    shell_at_terminal 'prompt>' "d $run"' x ./job; echo job $?\n' ready '\x1a' 'Stopped' 'fg; echo end $?\n' \
        'prompt> fg' 'word\n' 'end [0-9]' 'exit\n'
    screen_shows 'got word'
    screen_shows 'end 3'
}

stopped_too_long_is_killed() {
    job 'echo ready; sleep 60; echo survived'
    shell_at_terminal 'prompt>' 'd run --ttl 1500ms x ./job\n' ready '\x1a' 'Stopped' \
        'sleep 2; fg; echo end $?\n' 'end [0-9]' 'exit\n'
    screen_shows 'Killed'
    screen_hides survived
}

ctrl_z_without_a_shell_does_not_hang() {
    job 'echo ready; sleep 1; exit 5'
    typing "$dlock run x ./job" ready '\x1a'
    equal 5 "$code" "exit code"
}

background_job_reads_when_in_front() {
    job 'echo ready; read -r l; echo "got $l"; exit 3'
    shell_at_terminal 'prompt>' "d $run"' x ./job &\n' ready 'until jobs -s | grep -q job; do sleep 0.1; done\n' 'Stopped' \
        'fg; echo end $?\n' 'prompt> fg' 'word\n' 'end [0-9]' 'exit\n'
    screen_shows 'got word'
    screen_shows 'end 3'
}

in_a_pipeline() {
    typing "bash -c '\"$dlock\" run x -- echo ready | { cat; read -r l </dev/tty; echo \"got \$l\"; }'" \
        ready 'hello\n'
    equal 0 "$code" "exit code"
    screen_shows 'got hello'
}

in_a_script_on_demand() {
    job 'echo ready; read -r l; echo "got $l"'
    typing "bash -c '\"$dlock\" run x ./job; read -r l; echo \"after \$l\"'" ready 'hello\n' 'got hello' 'x\n'
    screen_shows 'got hello'
    screen_shows after
}

modes_come_back() {
    job 'stty raw -echo; kill -9 $$'
    typing "sh -c 'stty -a >before; \"$dlock\" run x ./job; stty -a >after'"
    cmp before after
}

contained() {
    run='run --contain'
    "$1"
}

all_contained() {
    contained has_the_terminal
    contained reads_from_it
    contained ctrl_c
    contained ctrl_z_and_fg
    contained background_job_reads_when_in_front
}

break_asks() {
    "$dlock" run x -- sleep 60 &
    within 20 held x
    typing "$dlock break x" 'Break x' 'n\n'
    equal 1 "$code" "exit code"
    held x
    typing "$dlock break x" 'Break x' 'y\n'
    equal 0 "$code" "exit code"
    screen_shows 'held by .*owner [0-9a-f]*, fence'
    is_free x
}

shows "tty: the command is the terminal's foreground group" has_the_terminal
shows "tty: it reads from the terminal" reads_from_it
shows "tty: the terminal comes back" gives_it_back
shows "tty: Ctrl-C ends it with 130" ctrl_c
shows "tty: Ctrl-C ends a loop around it as well" ctrl_c_ends_a_loop
shows "tty: Ctrl-C ends a wait" ctrl_c_while_waiting
shows "tty: Ctrl-Z stops the job, fg goes on" ctrl_z_and_fg
shows "tty: a job that is stopped at the end of its lease is ended then (C25)" \
    stopped_too_long_is_killed
shows "tty: Ctrl-Z where no shell could continue it does nothing" ctrl_z_without_a_shell_does_not_hang
shows "tty: a background job gets the terminal with fg" background_job_reads_when_in_front
shows "tty: in a pipeline the others keep the terminal" in_a_pipeline
shows "tty: in a script the command gets the terminal when it asks" in_a_script_on_demand
shows "tty: its modes are restored after a killed command" modes_come_back
shows "tty: all of it for a command in a PID namespace of its own" all_contained
shows "break: asks at a terminal, shows the holder, takes no for an answer" break_asks
tap_end
