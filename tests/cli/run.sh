#!/bin/bash
# Tests: cli/main.c cli/cmd_run.c cli/acquire.c cli/supervise.c cli/cmd_break.c
# SPDX-License-Identifier: MIT
# dlock run: exclusion, waiting, exit codes, what the command finds.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq

exit_codes() {
    exits 0 "$dlock" run x -- true
    exits 7 "$dlock" run x -- sh -c 'exit 7'
    exits 7 "$dlock" run x sh -c 'exit 7'
    exits 137 "$dlock" run x -- sh -c 'kill -9 $$'
    exits 143 "$dlock" run x -- sh -c 'kill -TERM $$'
    exits 255 "$dlock" run x -- sh -c 'exit 255'
    equal "" "$(cat err)" "standard error"
    exits 1 "$dlock" inspect x
}

nowait_is_busy() {
    "$dlock" run --nowait job -- sleep 30 &
    within 20 held job
    exits 75 "$dlock" run --nowait job -- touch ran
    one_line "job: held by .*:$!@[0-9a-f]{8} for [0-9.]+s, [0-9.]+s left\$"
    exits 75 "$dlock" -q run --nowait job -- touch ran
    equal "" "$(cat err)" "with -q"
    exits 9 "$dlock" run --nowait --conflict-exit-code 9 job -- touch ran
    exits 0 "$dlock" run --nowait --conflict-exit-code=0 job -- touch ran
    [ ! -e ran ]
}

# The limit of the command alone, whose standard error goes to a pipe.
limited() {
    exits 78 bash -c 'set -o pipefail; (ulimit -f 0 && exec "$@") 2>&1 | cat >&2' - "$@"
    one_line 'x: .*larger than this process may write \(ulimit -f\)'
}

no_file_may_grow() {
    limited "$dlock" run x -- touch ran # a store that has to be made
    rm -f locks.db*
    exits 0 "$dlock" run x -- true
    limited "$dlock" run x -- touch ran
    limited "$dlock" run --nowait x -- touch ran
    [ ! -e ran ]
    exits 0 "$dlock" run x -- true
}

wait_gets_its_turn() {
    "$dlock" run job -- sleep 1 &
    within 20 held job
    exits 0 "$dlock" run --wait 10s job -- true
}

wait_runs_out() {
    local began took
    "$dlock" run job -- sleep 30 &
    within 20 held job
    began=$(now_ms)
    exits 75 "$dlock" run --wait 700ms job -- touch ran
    took=$(($(now_ms) - began))
    lasted 700 "$took" 10000 "time waited"
    one_line 'job: not acquired before the deadline: held by .*:[0-9]+@[0-9a-f]{8} for '
    exits 75 "$dlock" run --wait 0s job -- touch ran
    exits 3 "$dlock" run --wait 0s --conflict-exit-code 3 job -- touch ran
    [ ! -e ran ]
}

wait_of_the_uri_counts() {
    "$dlock" run job -- sleep 30 &
    within 20 held job
    exits 75 "$dlock" -u "$store?wait=200ms" run job -- true
}

counter_is_whole() {
    local shells=8 rounds=50 pids=() i
    [ "$light" -eq 0 ] || { shells=4 rounds=8; }
    echo 0 >f
    for ((i = 0; i < shells; i++)); do
        (for ((j = 0; j < rounds; j++)); do
            "$dlock" run counter -- sh -c 'n=$(cat f); echo $((n+1)) >f'
        done) &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i"; done
    equal $((shells * rounds)) "$(cat f)" counter
}

fences_rise() {
    local shells=8 rounds=50 pids=() i
    [ "$light" -eq 0 ] || { shells=4 rounds=8; }
    : >fences
    for ((i = 0; i < shells; i++)); do
        (for ((j = 0; j < rounds; j++)); do
            "$dlock" run fenced -- sh -c 'echo "$DLOCK_FENCE" >>fences'
        done) &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i"; done
    equal $((shells * rounds)) "$(wc -l <fences)" fences
    sort -n -u -c fences
}

not_executable() {
    exits 127 "$dlock" run x -- ./nothing-here
    one_line 'nothing-here: No such file or directory$'
    exits 127 "$dlock" run x -- 'echo hi; ls'
    one_line "echo hi; ls: No such file or directory; a command line needs a shell: sh -c '...'"
    exits 127 "$dlock" run x -- nothing-of-that-name
    exits 126 "$dlock" run x -- /
    one_line '/: Permission denied'
    echo 'exit 3' >script
    exits 126 "$dlock" run x -- ./script
    chmod +x script
    exits 3 "$dlock" run x -- ./script
    exits 127 "$dlock" run x -- sh -c 'exit 127'
    equal "" "$(cat err)" "the command's own 127"
    exits 1 "$dlock" inspect x
}

environment() {
    exits 0 "$dlock" run 'my job' -- sh -c 'echo "$DLOCK_NAME|$DLOCK_FENCE|$DLOCK_TOKEN|$DLOCK_URI"
        "$0" --json inspect "my job"' "$dlock"
    grep -qE '^my job\|[1-9][0-9]*\|[0-9a-f]{32}\|sqlite://' out || die "$(head -1 out)"
    equal "$(head -1 out | cut -d'|' -f2,3)" \
        "$(tail -n +2 out | jq -r '.holders[0] | "\(.fence)|\(.owner)"')" "inspect from within"
    equal "$store" "$(head -1 out | cut -d'|' -f4)" DLOCK_URI
}

uri_option_wins_and_is_handed_on() {
    exits 0 "$dlock" run -u "sqlite://$PWD/other.db" x -- sh -c 'echo "$DLOCK_URI"'
    equal "sqlite://$PWD/other.db" "$(cat out)"
}

# On the store of the user, or of the DLOCK_URI around it, it would be had at once.
password_is_asked_for_again() {
    # shellcheck disable=SC2016
    exits 0 "$DLOCK_BIN/with_server" redis --requirepass s3cr3t -- sh -c '
        cd "$1"
        uri="redis://:s3cr3t@127.0.0.1:$2?restart_guard=0"
        "$0" run -u "$uri" x -- sh -c '\''
            echo "$DLOCK_URI"
            for words in "run --nowait x -- true" "run --nowait y -- touch ran" "inspect x" list "break x --yes"; do
                "$0" $words; echo "exit code $?"
            done
            "$0" -u "$1" inspect x
            exec "$0" -u "$1" run --nowait y -- touch told'\'' "$0" "$uri"' "$dlock" "$PWD" '{port}'
    grep -qE '^redis://:\*\*\*@127.0.0.1:[0-9]+\?restart_guard=0$' out || die "DLOCK_URI: $(cat out)"
    equal 5 "$(grep -cx 'exit code 64' out)" "refusals ($(cat out err))"
    equal 5 "$(grep -c '^dlock: DLOCK_URI: \*\*\* stands for a secret that was left out' err)" "lines ($(cat err))"
    ! grep -q s3cr3t out err || die "$(cat out err)"
    grep -q '^state *held' out || die "with -u: $(cat out err)"
    [ ! -e ran ] && [ -e told ]
}

# A run by DLOCK_URI tells its command nothing that the environment did not hold before (C17).
uri_of_the_environment_stays() {
    exits 0 "$DLOCK_BIN/with_server" redis --requirepass s3cr3t -- sh -c '
        cd "$1"
        export DLOCK_URI="redis://:s3cr3t@127.0.0.1:$2?restart_guard=0"
        "$0" -v run x -- sh -c '\''
            echo "$DLOCK_URI"
            "$0" inspect x
            exec "$0" run --nowait y -- "$0" run --nowait z -- touch nested'\'' "$0"' "$dlock" "$PWD" '{port}'
    grep -qE '^redis://:s3cr3t@127.0.0.1:[0-9]+\?restart_guard=0$' out || die "DLOCK_URI: $(cat out err)"
    grep -q '^state *held' out || die "inspect from within: $(cat out err)"
    [ -e nested ]
    ! grep -q s3cr3t err || die "$(cat err)"
}

# URIs of nodes in a URI without a path, each with its password.
uri_of_nodes_in_the_environment_stays() {
    exits 0 "$DLOCK_BIN/with_server" redis --count 3 --requirepass s3cr3t -- sh -c '
        for port in "$1" "$2" "$3"; do
            uri="$uri&node=redis%3A%2F%2F%3As3cr3t%40127.0.0.1%3A$port"
        done
        export DLOCK_URI="redlock:?restart_guard=0$uri"
        echo "$DLOCK_URI"
        "$0" run x -- sh -c '\''
            echo "$DLOCK_URI"
            exec "$0" run --nowait y -- touch nested'\'' "$0"' "$dlock" '{port}' '{port2}' '{port3}'
    equal 1 "$(sort -u out | wc -l)" "DLOCK_URI: $(cat out err)"
    [ -e nested ]
    ! grep -q s3cr3t err || die "$(cat err)"
}

uri_of_nobody_stays_unset() {
    unset DLOCK_URI
    exits 0 "$dlock" run --nowait "dlock-test-$$" -- sh -c 'echo "${DLOCK_URI-unset}"
        exec "$0" run --nowait "dlock-test-inner-$$" -- true' "$dlock"
    equal unset "$(cat out)" DLOCK_URI
}

relative_store_stays_the_same() {
    mkdir 'odd %41 @dir' elsewhere
    cd 'odd %41 @dir'
    exits 0 "$dlock" -v run -u 'sqlite:rel.db?ttl=9s' x -- \
        sh -c 'cd ../elsewhere; "$0" inspect x; exec "$0" run --nowait y -- touch there' "$dlock"
    grep -q '^state *held' out || die "$(cat out err)"
    [ -e rel.db ] && [ ! -e ../elsewhere/rel.db ] && [ -e ../elsewhere/there ]
    DLOCK_URI=sqlite:rel.db exits 0 "$dlock" run x -- \
        sh -c 'cd ../elsewhere; exec "$0" inspect x' "$dlock"
    [ ! -e ../elsewhere/rel.db ]
}

# But the one of the file whose byte shows that the command lives.
no_descriptor_of_ours() {
    exits 0 ls -l /proc/self/fd
    grep -vc -- -wake out >without
    exits 0 "$dlock" run x -- ls -l /proc/self/fd
    grep -vc -- -wake out >within
    cmp without within || die "$(cat out)"
}

standard_input_is_the_commands() {
    seq 1 20000 | exits 0 "$dlock" run x -- cat
    seq 1 20000 | cmp - out
    printf 'a line\n' >in
    exits 0 "$dlock" run x -- cat <in
    equal "a line" "$(cat out)"
}

closed_streams_are_no_trap() {
    local fd
    code=0
    "$dlock" run x -- sh -c '[ -e /proc/$$/fd/0 ] || [ -e /proc/$$/fd/1 ] || [ -e /proc/$$/fd/2 ] || exit 5' \
        <&- >&- 2>&- || code=$?
    equal 5 "$code" "exit code"
    "$dlock" run x -- sleep 30 &
    within 20 held x
    "$dlock" run --nowait x -- true <&- >&- 2>&- && die "it ran"
    exits 71 sh -c '"$0" list >&-' "$dlock"
    exits 0 "$dlock" inspect x
    "$dlock" run y -- sleep 30 <&- >&- 2>&- &
    within 20 held y
    for fd in 0 1 2; do
        equal /dev/null "$(readlink "/proc/$!/fd/$fd")" "stream $fd of dlock itself"
    done
}

nested_run_is_told() {
    exits 64 timeout 20 "$dlock" run x -- "$dlock" run x -- true
    one_line 'x: an enclosing dlock run holds'
    exits 64 timeout 20 "$dlock" run x -- "$dlock" run y -- "$dlock" run --wait 9s x -- true
    exits 5 timeout 20 "$dlock" run x -- "$dlock" run y -- "$dlock" run z -- sh -c 'exit 5'
    # the same name in another store is another lock
    exits 5 "$dlock" run x -- "$dlock" run -u "sqlite://$PWD/other.db" x -- sh -c 'exit 5'
}

left_behind_processes_are_left_alone() {
    exits 0 "$dlock" run x -- sh -c 'sleep 30 >/dev/null 2>&1 & echo $!'
    alive "$(cat out)"
    kill -KILL "$(cat out)"
}

concurrent_names_do_not_meet() {
    "$dlock" run one -- sleep 30 &
    within 20 held one
    exits 0 "$dlock" run --nowait two -- true
}

label_and_ttl_show() {
    "$dlock" run --ttl 7s --label 'night shift' x -- sleep 30 &
    within 20 held x
    exits 0 "$dlock" --json inspect x
    jq -e '.holders[0].label | endswith(":night shift")' out
    jq -e '.holders[0].remaining_ms | . > 3000 and . <= 7000' out
}

holder_and_its_child_killed() {
    local pid remaining before after
    "$dlock" run --ttl 2s job -- sleep 30 &
    pid=$!
    within 20 held job
    kill -KILL "$pid"
    before=$(now_ms)
    exits 0 "$dlock" --json inspect job
    after=$(now_ms)
    remaining=$(jq '.holders[0].remaining_ms' out)
    exits 0 "$dlock" run job -- date +%s%3N
    lasted $((before - after)) $(($(cat out) - after)) $((remaining + 3000)) "time to the next one"
}

shows "run: the command's exit code is dlock's; 128+n for its signal" exit_codes
shows "run --nowait on a held name exits 75, with one line" nowait_is_busy
# ThreadSanitizer itself writes a file when the program starts, and dies of it.
ldd "$dlock" | grep -q libtsan ||
    shows "run: where no file may grow (ulimit -f 0) it is 78 and one line, and no signal" no_file_may_grow
shows "run --wait 10s waits for its turn and exits 0" wait_gets_its_turn
shows "run --wait ends in time with 75" wait_runs_out
shows "run without --wait takes wait= of the URI" wait_of_the_uri_counts
shows "shells that read, add and write under the lock lose nothing (C1)" counter_is_whole
shows "DLOCK_FENCE rises in the order of the critical sections (C6)" fences_rise
shows "run: 126 and 127, told apart from the command's own" not_executable
shows "run: the environment of the command, and inspect from within" environment
shows "run: -u wins over DLOCK_URI, and the command gets it" uri_option_wins_and_is_handed_on
shows "run: a store with a password is asked for again inside, and no other one is taken (C1, C17)" \
    password_is_asked_for_again
shows "run: DLOCK_URI stays as it is, its password included, and nested runs work (C17)" \
    uri_of_the_environment_stays
shows "run: DLOCK_URI stays what it is where it names nodes with passwords" \
    uri_of_nodes_in_the_environment_stays
shows "run: DLOCK_URI stays unset where the store is the default" uri_of_nobody_stays_unset
shows "run: a relative store is the same one after the command's cd" relative_store_stays_the_same
shows "run: none of dlock's descriptors reaches the command (C10)" no_descriptor_of_ours
shows "run: closed standard streams do no harm, and stay closed" closed_streams_are_no_trap
shows "run: standard input belongs to the command" standard_input_is_the_commands
shows "run: a nested run of a name held by an enclosing one exits 64" nested_run_is_told
shows "run: processes that the command leaves behind are left alone" left_behind_processes_are_left_alone
shows "run: different names do not meet" concurrent_names_do_not_meet
shows "run: --label and --ttl show in inspect" label_and_ttl_show
shows "a killed holder's name is free soon after its expiry at the latest (C4)" \
    holder_and_its_child_killed
tap_end
