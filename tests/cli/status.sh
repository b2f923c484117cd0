#!/bin/bash
# Tests: cli/outcome.c
# SPDX-License-Identifier: MIT
# What run says of itself: --status-fd and --outcome for programs, --skip-quietly for cron, -v for people.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq

token='[0-9a-f]{32}'

# told FILE PATTERN...: the file's lines match the patterns, one by one
told() {
    local file=$1 line
    shift
    equal $# "$(wc -l <"$file")" "lines: $(cat "$file")"
    while read -r line; do
        [[ $line =~ ^$1$ ]] || die "'$line' does not match '$1'"
        shift
    done <"$file"
}

outcome_of_a_command() {
    exits 3 "$dlock" run --outcome told x -- sh -c 'echo "$DLOCK_FENCE $DLOCK_TOKEN"; exit 3'
    told told waiting "acquired fence=[0-9]+ token=$token" 'exited code=3' released 'end code=3'
    equal "$(cat out)" "$(sed -nE 's/^acquired fence=([0-9]+) token=/\1 /p' told)"
    exits 137 "$dlock" run --outcome told x -- sh -c 'kill -9 $$'
    told told waiting "acquired .*" 'exited signal=9' released 'end code=137'
    exits 127 "$dlock" run --outcome told x -- ./nothing-here
    told told waiting "acquired .*" released 'end code=127'
    # the command's own 75 is told from ours
    exits 75 "$dlock" run --outcome told x -- sh -c 'exit 75'
    told told waiting "acquired .*" 'exited code=75' released 'end code=75'
}

outcome_without_a_lock() {
    "$dlock" run x -- sleep 30 &
    within 20 held x
    exits 75 "$dlock" run --nowait --outcome told x -- true
    told told busy 'end code=75'
    exits 75 "$dlock" run --wait 300ms --outcome told x -- true
    told told waiting timeout 'end code=75'
    exits 69 "$dlock" -u 'redis://127.0.0.1:1/' run --nowait --outcome told x -- true
    told told 'failed status=UNAVAILABLE' 'end code=69'
}

outcome_of_a_loss() {
    local pid
    "$dlock" run --ttl 2s --outcome told x -- sleep 60 &
    pid=$!
    within 20 held x
    exits 0 "$dlock" break --yes x
    exit_of "$pid"
    equal 70 "$code" "exit code"
    told told waiting "acquired .*" 'lost reason=taken' 'exited signal=15' 'end code=70'
    exits 70 "$dlock" run --ttl 2s --max-hold 700ms --outcome told x -- sleep 60
    sed -i '/^released$/d' told # a release that comes in time
    told told waiting "acquired .*" 'lost reason=max-hold' 'exited signal=15' 'end code=70'
}

# Events as they come, from a descriptor: the next one matches the pattern.
next_event() {
    local line
    read -r -t 30 line <&6 || die "no line, and not '$1'"
    [[ $line =~ ^$1$ ]] || die "'$line' does not match '$1'"
}

# The reader knows that the run waits while it still does: for a holder, and for the store.
status_while_it_waits() {
    local holder pid
    mkfifo told
    "$dlock" run x -- sleep 60 &
    holder=$!
    within 20 held x
    "$dlock" --json run --status-fd 7 x -- true 7>told &
    pid=$!
    exec 6<told
    next_event '\{"event":"waiting"\}'
    held x
    alive "$pid"
    kill "$holder"
    next_event '\{"event":"acquired",.*'
    exit_of "$pid"
    equal 0 "$code" "exit code"
    exits 69 "$dlock" -u 'redis://127.0.0.1:1/' run --wait 1s --outcome told.txt x -- true
    told told.txt waiting 'failed status=UNAVAILABLE' 'end code=69'
}

status_as_it_happens() {
    local pid
    mkfifo told
    "$dlock" run --status-fd 7 x -- sh -c '[ ! -e /proc/self/fd/7 ] && sleep 30' 7>told &
    pid=$!
    exec 6<told
    read -r -t 30 line <&6
    equal waiting "$line"
    read -r -t 30 line <&6
    [[ $line =~ ^acquired\ fence= ]] || die "$line"
    held x
    # A reader who goes away does the command no harm.
    exec 6<&-
    kill "$pid"
    exit_of "$pid"
    equal 143 "$code" "exit code"
}

# A pipe that is full, or a terminal that is stopped, must not hold up the end of CMD.
a_reader_that_sleeps() {
    local pid
    mkfifo told
    exec 6<>told
    timeout 1 cat /dev/zero >&6 || true
    exits 70 "$dlock" run --ttl 2s --max-hold 700ms --status-fd 6 x -- sleep 60
    grep -qx 'dlock: --status-fd, --outcome: lines are missing: Resource temporarily unavailable' err || die "$(cat err)"
    "$dlock" run --ttl 2s --max-hold 700ms x -- sleep 60 2>&6 &
    pid=$!
    exit_of "$pid"
    equal 70 "$code" "exit code"
}

a_full_disk() {
    exits 3 "$dlock" run --outcome /dev/full x -- sh -c 'exit 3'
    one_line 'lines are missing: No space left on device'
    export DLOCK_PLUGIN_PATH=$CLI_HALF
    exits 3 bash -c 'ulimit -f 0 && exec "$@"' - "$dlock" -u half: run --outcome told x -- sh -c 'exit 3'
}

status_in_json() {
    exits 4 "$dlock" --json run --status-fd 1 x -- sh -c 'exit 4'
    equal 'waiting acquired exited released end' "$(jq -r .event out | xargs)" events
    jq -es '.[1].fence > 0 and .[2].code == 4 and .[4].code == 4' out
}

status_that_cannot_be_written() {
    exits 64 "$dlock" run --status-fd 9 x -- touch ran 9>&-
    one_line '--status-fd=9 is not open for writing'
    exits 64 "$dlock" run --status-fd 9 x -- touch ran 9</dev/null
    exits 64 "$dlock" run --status-fd nine x -- touch ran
    exits 71 "$dlock" run --outcome none/told x -- touch ran
    one_line 'none/told: No such file'
    [ ! -e ran ]
}

skips_quietly() {
    exits 5 "$dlock" run --skip-quietly x -- sh -c 'exit 5'
    "$dlock" run x -- sleep 30 &
    within 20 held x
    exits 0 "$dlock" run --skip-quietly x -- touch ran
    equal "" "$(cat err)" "a skip"
    exits 0 "$dlock" run --skip-quietly --wait 300ms x -- touch ran
    equal "" "$(cat err)" "a skip after a wait"
    exits 3 "$dlock" run --skip-quietly --conflict-exit-code 3 x -- touch ran
    equal "" "$(cat err)" "a skip with a code of its own"
    exits 69 "$dlock" -u 'redis://127.0.0.1:1/' run --skip-quietly x -- touch ran
    one_line .
    exits 127 "$dlock" run --skip-quietly y -- ./nothing-here
    one_line nothing-here
    [ ! -e ran ]
}

verbose_says_who_and_what() {
    local pid holder
    "$dlock" run --label nightly x -- sleep 2 &
    holder=$!
    within 20 held x
    exits 3 "$dlock" -v run x -- sh -c 'exit 3'
    equal 1 "$(grep -cE "^dlock: x: held by .*:$holder@[0-9a-f]{8}:nightly for [0-9.]+s, [0-9.]+s left; waiting$" err)" "$(cat err)"
    grep -qE '^dlock: x: acquired, fence [0-9]+, token' err || die "$(cat err)"
    grep -qx 'dlock: x: command exited 3' err || die "$(cat err)"
    grep -qx 'dlock: x: released' err || die "$(cat err)"
    exits 143 "$dlock" -vv run x -- sh -c 'kill -TERM $$'
    equal "" "$(grep -vE '^dlock: [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z .' err || true)" "lines without a time"
    grep -q 'Z x: command ended by signal 15' err || die "$(cat err)"
}

no_fence_is_said() {
    export DLOCK_PLUGIN_PATH=$CLI_HALF
    exits 0 "$dlock" -v -u half: run --outcome told x -- sh -c '[ -z "${DLOCK_FENCE+set}" ]'
    grep -qE "^dlock: x: acquired, token $token; this store gives no fencing tokens$" err || die "$(cat err)"
    told told waiting "acquired fence=- token=$token" 'exited code=0' released 'end code=0'
}

shows "--outcome: the fence, the command's exit status, the release" outcome_of_a_command
shows "--outcome: busy, timeout and the store's failures" outcome_without_a_lock
shows "--outcome: a loss and its reason" outcome_of_a_loss
shows "--status-fd: waiting, for a lock and for a store" status_while_it_waits
shows "--status-fd: lines as it happens, and nothing for the command to inherit (C10)" status_as_it_happens
shows "--json: the same lines as objects" status_in_json
shows "--status-fd, --outcome: what cannot be written is told before the lock is taken" \
    status_that_cannot_be_written
shows "--status-fd, standard error: a reader who sleeps does not keep the command alive" a_reader_that_sleeps
shows "--outcome: a full disk is told, and does the command no harm" a_full_disk
shows "--skip-quietly: no line for a lock held by another, one for all else" skips_quietly
shows "-v: who holds, released, exited; -vv: with times" verbose_says_who_and_what
shows "-v: a store without fencing tokens is said to have none" no_fence_is_said
tap_end
