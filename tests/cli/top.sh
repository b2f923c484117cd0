#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests: cli/cmd_top.c
# Is dlock top right at each width, live at a terminal, and plain without one? script(1) makes the terminal.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"

holders() {
    "$dlock" run --label 'a label that is longer than any column' 'a-name-that-is-longer-than-half-of-a-terminal' -- \
        sleep 300 &
    "$dlock" run short -- sleep 300 &
    "$dlock" run --limit 3 gpu -- sleep 300 &
    within 60 held a-name-that-is-longer-than-half-of-a-terminal
    within 60 held short
    within 60 held gpu
    "$dlock" run short -- true &
    within 60 eval '"$dlock" --json inspect short | grep -q "\"waiters\": 1"'
}

# at COLUMNS ROWS KEYS COMMAND...: runs it at a terminal of this size, and types KEYS when the table is there.
# What the terminal got is in the file screen, the exit code in $code.
at() {
    local size="cols $1 rows $2" keys=$3
    shift 3
    : >screen
    code=0
    typed "$keys" | TERM=xterm timeout 60 script -qefc "stty $size; exec $*" screen >/dev/null || code=$?
}

typed() {
    within 30 grep -q FENCE screen
    # shellcheck disable=SC2059 # escapes of printf
    printf "$1"
    within 30 grep -q '^Script done' screen
}

# The lines of the last frame in the file screen: script(1) writes a line before and after.
last_frame() {
    sed '1d;/^Script done/d' screen | tr -d '\r' | awk '{ n = split($0, part, "\033\\[H"); for (i = 1; i <= n; i++) {
        if (i > 1) frame = ""; frame = frame part[i] (i == n ? "\n" : "") } } END { printf "%s", frame }' |
        sed -e 's/\x1b\[[0-9?;]*[a-zA-Z]//g' | grep .
}

# fits COLUMNS: no line of the table is longer, and the longest one, which is cut, has that length
fits() {
    last_frame >frame
    equal "$1" "$(awk '{ if (length > most) most = length } END { print most }' frame)" "the longest line of $(<frame)"
}

at_80_columns() {
    holders
    at 80 24 q "$dlock" top
    equal 0 "$code" "exit code"
    fits 80
    grep -Eq '^[0-9:]{8} UTC  3 held, 0 kept, 1 waiting  sqlite:' frame || die "$(<frame)"
    grep -Eq '^NAME +HOLDER +AGE +LEFT +WAITERS +FENCE$' frame || die "$(<frame)"
    equal short "$(sed -n 3p frame | cut -d' ' -f1)" "the name with a waiter comes first"
    grep -Eq '^a-name-[a-z-]*~  .*~ +[0-9.]+s +[0-9.]+s +0 +[0-9]+$' frame || die "$(<frame)"
    if grep exclusive frame; then die "there is no room for the mode"; fi
}

at_160_columns() {
    holders
    at 160 24 q "$dlock" top
    equal 0 "$code" "exit code"
    last_frame >frame
    grep -Eq '^NAME +HOLDER +MODE +AGE +LEFT +WAITERS +FENCE$' frame || die "$(<frame)"
    grep -Eq '^a-name-that-is-longer-than-half-of-a-terminal  .*:a label that is longer than any column  exclusive  ' frame ||
        die "$(<frame)"
    grep -Eq '^gpu .* 0 of 3 ' frame || die "$(<frame)"
}

it_goes_on() {
    "$dlock" run first -- sleep 300 &
    within 60 held first
    : >screen
    code=0
    {
        within 30 grep -q first screen
        "$dlock" run second -- sleep 300 >/dev/null 2>&1 </dev/null &
        within 30 grep -q second screen
        printf q
        within 30 grep -q '^Script done' screen
        kill $!
    } | TERM=xterm timeout 60 script -qefc "exec $dlock top --every 100ms" screen >/dev/null || code=$?
    equal 0 "$code" "exit code"
}

it_leaves_the_terminal_as_it_was() {
    holders
    at 80 24 q "sh -c 'stty -a >before; \"$dlock\" top; stty -a >after'"
    cmp before after
    at 80 24 '\x03' "$dlock" top
    equal 130 "$code" "Ctrl-C"
    equal "$(grep -o $'\e\\[?1049h' screen | wc -l)" "$(grep -o $'\e\\[?1049l' screen | wc -l)" "screens opened and closed"
}

# Of a server that answers first, and then no more.
a_store_that_is_silent() {
    "$DLOCK_BIN/with_server" redis -- env --chdir="$PWD" bash "$program" silent "{port}"
}

silent() {
    local redis="redis://127.0.0.1:$1?op_timeout=30s" server key want began
    server=$(redis-cli -p "$1" info server | tr -d '\r' | sed -n 's/^process_id://p')
    while read -r key want; do
        : >screen
        code=0
        {
            within 30 grep -q FENCE screen
            kill -STOP "$server"
            within 30 grep -q 'the store has not answered for' screen
            now_ms >pressed
            # shellcheck disable=SC2059 # escapes of printf
            printf "$key"
            within 30 grep -q '^Script done' screen
        } | TERM=xterm timeout 60 script -qefc "stty cols 100 rows 24; exec $dlock -u '$redis' top --every 100ms" screen >/dev/null || code=$?
        kill -CONT "$server"
        equal "$want" "$code" "exit code after $key"
        began=$(cat pressed)
        lasted 0 $(($(now_ms) - began)) 15000 "ms until it ended"
        equal "$(grep -o $'\e\\[?1049h' screen | wc -l)" "$(grep -o $'\e\\[?1049l' screen | wc -l)" "screens opened and closed"
    done <<'KEYS'
q 0
\x03 130
KEYS
}

rows_are_counted() {
    local i
    for i in 1 2 3 4 5 6 7 8; do
        "$dlock" acquire --ttl 300s "n$i" >/dev/null
    done
    at 80 7 q "$dlock" top
    last_frame >frame
    equal 6 "$(wc -l <frame)" "lines of $(<frame)"
    grep -q '^... and 5 more$' frame || die "$(<frame)"
}

plain_without_a_terminal() {
    holders
    exits 0 "$dlock" top
    equal 4 "$(wc -l <out)" "lines"
    if grep $'\e' out; then die "escape sequences"; fi
    grep -q '^a-name-that-is-longer-than-half-of-a-terminal .*:a label that is longer than any column  exclusive  ' out ||
        die "$(<out)"
    exits 0 "$dlock" top sh
    equal 'NAME short' "$(cut -d' ' -f1 out | xargs)" "with a prefix"
    at 80 24 '' "$dlock" top --once
    equal 0 "$code" "exit code"
    equal "$(printf '%s\n' 0)" "$(grep -c $'\e' screen || true)" "escape sequences at a terminal"
    grep -q '~' screen || die "cut to the width of the terminal"
}

bad_arguments() {
    "$dlock" run x -- true
    exits 64 "$dlock" top a b
    one_line 'more than one PREFIX'
    exits 64 "$dlock" top --every 0
    one_line 'every=0'
    exits 64 "$dlock" --json top
    one_line 'dlock --json list'
    exits 66 "$dlock" -u "sqlite://$PWD/none.db" top
    exits 71 sh -c '"$0" top >/dev/full' "$dlock"
}

program=$(realpath "$0")
if [ "${1-}" = silent ]; then
    set -eu
    silent "$2"
    exit
fi
need script redis-server redis-cli
shows "top: right at 80 columns" at_80_columns
shows "top: right at 160 columns" at_160_columns
shows "top: shows what changes" it_goes_on
shows "top: q and Ctrl-C leave the terminal as it was" it_leaves_the_terminal_as_it_was
shows "top: hears q and Ctrl-C while the store does not answer, and says so" a_store_that_is_silent
shows "top: a table that is longer than the terminal says so" rows_are_counted
shows "top: plain and uncut without a terminal" plain_without_a_terminal
shows "top: bad arguments, and output that fails" bad_arguments
tap_end
