#!/bin/bash
# Tests: cli/acquire.c cli/cmd_run.c cli/environment.c cli/process.c
# SPDX-License-Identifier: MIT
# dlock run --join, and a script that puts itself under a lock: does its work ever run without the lock?
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq setsid redis-server
export PATH=$DLOCK_BIN:$PATH

# A script as the manual page has it. Two at once leave the file overlap.
cat >"$tap_tmp/job" <<'JOB'
#!/bin/sh
[ "${1-}" = --locked ] || exec dlock run --join job -- "$0" --locked "$@"
shift
mkdir alone || touch overlap
echo "$*" >>ran
until [ ! -e keep ]; do sleep 0.02; done
sleep 0.2
rmdir alone
JOB
chmod +x "$tap_tmp/job"
export job=$tap_tmp/job

not_two_at_once() {
    [ ! -e overlap ] || die "two at once: $(cat ran)"
}

# busy: the job runs, and ends when the file keep is gone
busy() {
    touch keep
    "$job" busy &
    within 20 test -d alone
}

exclude_each_other() {
    "$job" a 'b  c' &
    "$job" d e
    wait "$!"
    not_two_at_once
    equal "a b  c|d e" "$(sort ran | paste -sd '|')" "what ran"
}

below_another_name() {
    busy
    dlock run deploy -- "$job" inner &
    within 20 has_waiter job
    rm keep
    wait
    not_two_at_once
    equal 2 "$(wc -l <ran)" "runs"
}

has_waiter() {
    [ "$(dlock --json inspect "$1" | jq .waiters)" = 1 ]
}

# The process that outlives the run has the variables of it.
in_a_process_that_outlived_the_run() {
    dlock run job -- sh -c 'setsid -f sh -c "while [ ! -e go ]; do sleep 0.02; done; $job late" >/dev/null 2>&1' 2>err
    busy
    touch go
    within 20 has_waiter job
    rm keep
    within 20 test "$(wc -l <ran)" -ge 1
    within 20 grep -q late ran
    wait
    not_two_at_once
}

# Its dlock was killed, and the lease is still there: nobody renews it, and nobody ends the job.
below_a_dlock_that_was_killed() {
    local redis="redis://127.0.0.1:$1?restart_guard=0"
    export DLOCK_URI=$redis
    dlock run --ttl 3s job -- sh -c 'setsid sh -c "echo up >up; while [ ! -e go ]; do sleep 0.02; done
        dlock run --wait 30s --join job -- date +%s%3N >began" & wait' &
    within 20 test -s up
    kill -KILL "$!"
    date +%s%3N >killed
    touch go
    within 20 test -s began
    lasted 700 $(($(cat began) - $(cat killed))) 30000 "ms until the lock was taken"
}

same_name_runs_at_once() {
    exits 7 dlock run job -- sh -c 'echo "$DLOCK_NAME $DLOCK_FENCE $DLOCK_TOKEN" >outer
        dlock run other -- dlock run --join job -- sh -c "echo \"\$DLOCK_NAME \$DLOCK_FENCE \$DLOCK_TOKEN\"; exit 7"'
    equal "$(cat outer)" "$(cat out)" "name, fence and token"
    exits 0 dlock run job -- dlock run --join job -- dlock run --join job -- sh -c 'echo "$DLOCK_HELD"'
    equal 1 "$(wc -w <out)" "entries of DLOCK_HELD"
    exits 0 dlock run job -- "$job" nested
    exits 0 dlock -u "sqlite:$PWD/locks.db" run job -- dlock -u "$store" run --join job -- true
    # its parent has ended, and the run has not
    exits 0 dlock run job -- sh -c '(sleep 0.2; dlock run --join job -- touch orphan) & exec sh -c "until [ -e orphan ]; do sleep 0.02; done"'
}

ends_with_the_run_that_it_joined() {
    local pid child
    dlock run --ttl 6s job -- dlock run --join job -- sh -c 'echo $$ >step; exec sleep 60' 2>err &
    pid=$!
    within 20 test -s step
    child=$(cat step)
    exits 0 dlock break job --yes
    exit_of "$pid"
    equal 70 "$code" "exit code"
    gone "$child"
}

another_store_is_another_lock() {
    exits 0 dlock run job -- dlock -u "sqlite://$PWD/other.db" run --join job -- sh -c 'dlock -q inspect job'
    exits 0 dlock run job -- sh -c 'DLOCK_HELD=6a6f62:00112233445566778899aabbccddeeff dlock run --wait 100ms --join job -- true ||
        [ $? -eq 75 ]'
}

what_cannot_be_joined() {
    exits 64 dlock run --shared job -- dlock run --join job -- touch ran
    one_line '^dlock: job: an enclosing dlock run holds this lock: it cannot be joined$'
    exits 0 dlock run --shared job -- dlock run --shared --join job -- true
    exits 0 dlock run job -- dlock run --shared --join job -- true
    exits 64 dlock run --limit 2 job -- dlock run --join job -- touch ran
    exits 64 dlock run -n a -- dlock run --join -n a -n b -- touch ran
    one_line '^dlock: a: '
    exits 64 dlock run -n b -- dlock run --join -n a -n b -- touch ran
    one_line '^dlock: b: '
    exits 0 dlock run -n b -n a -- dlock run --join -n a -n b -- sh -c '[ "$DLOCK_FENCE_1" -gt 0 ]'
    exits 127 dlock run a -- dlock run --join a -- no-such-program
    one_line 'no-such-program: No such file'
    for option in --again --keep=1m --once-per=1d --limit=2 --max-hold=1m --status-fd=2 --outcome=o --metrics=m; do
        exits 64 dlock run "$option" --join a -- touch ran
        one_line -- '--join excludes '
    done
    [ ! -e ran ]
}

# Nobody holds a name that is kept.
kept_name() {
    dlock run --keep 1m job -- sh -c 'setsid -f sh -c "while [ ! -e go ]; do sleep 0.02; done
        dlock run --nowait --join job -- true 2>late; echo \$? >code" >/dev/null 2>&1'
    touch go
    within 20 test -s code
    equal 75 "$(cat code)" "exit code: $(cat late)"
    grep -q 'ran already' late
}

signals_stay_as_they_were() {
    exits 0 grep -E '^Sig(Blk|Ign)' /proc/self/status
    mv out want
    exits 0 dlock run a -- dlock run --join a -- grep -E '^Sig(Blk|Ign)' /proc/self/status
    cmp want out
}

pages_have_the_script() {
    local line='[ "${1-}" = --locked ] || exec dlock run --join'
    sed 's,\\,,g' "$sources/cli/dlock.1" | grep -qF "$line" || die "dlock.1"
    for page in README.zh-CN.md docs/cookbook.md docs/faq.md; do
        grep -qF "$line" "$sources/$page" || die "$page"
    done
}

with_redis() {
    "$DLOCK_BIN/with_server" redis -- env --chdir="$PWD" bash "$program" redis "{port}"
}

program=$(realpath "$0")
sources=$(realpath "$(dirname "$0")/../..")
if [ "${1-}" = redis ]; then
    set -eu
    below_a_dlock_that_was_killed "$2"
    exit
fi
shows "a script under its lock: one at a time, with its arguments" exclude_each_other
shows "a script under its lock: below a run of another name" below_another_name
shows "a script under its lock: in a process that outlived the run" in_a_process_that_outlived_the_run
shows "--join: below a dlock that was killed, it waits for the end of the lease" with_redis
shows "--join: below a run of the same name, at once, with its fence and token (C6)" same_name_runs_at_once
shows "--join: ended with the run that was joined (C5)" ends_with_the_run_that_it_joined
shows "--join: the same name in another store is taken there" another_store_is_another_lock
shows "--join: another mode, a permit, a part of a set exit 64, and nothing runs (C18)" what_cannot_be_joined
shows "--join: a name that is kept is held by nobody (C22)" kept_name
shows "--join: the command has the signals of its caller" signals_stay_as_they_were
shows "the pages have that script" pages_have_the_script
tap_end
