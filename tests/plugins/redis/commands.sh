#!/bin/bash
# Tests: plugins/net/tls_module.c plugins/net/tls_option.c
# What reaches the server, and who else may use it? TAP.
#
#     with_server redis -- commands.sh SOURCE-DIRECTORY BIN-DIRECTORY {port} COUNT
#
# COUNT: acquisitions of each of 8 processes.
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
bin=$2
port=$3
count=$4
uri="redis://least:least@127.0.0.1:$port?restart_guard=0" # who may do what least.acl says
raw="redis://127.0.0.1:$port?key=raw&restart_guard=0"

# calls COMMAND: how often it was called since the last reset.
calls() {
    redis-cli -p "$port" INFO commandstats | tr -d '\r' |
        sed -n "s/^cmdstat_$1:calls=\([0-9]*\),.*/\1/p" | grep . || echo 0
}

reset() {
    redis-cli -p "$port" CONFIG RESETSTAT >"$tap_tmp/log"
}

# at_most LIMIT VALUE
at_most() {
    [ "$2" -le "$1" ] && return 0
    printf '%s is more than %s\n' "$2" "$1"
    return 1
}

# P1's shape: an acquisition is one script and a release is one, and nobody is told of anything.
reset
check "1,000 pairs" "$bin/redis_load" "$uri" 1 1000 0
check "... are 2,000 scripts, and those that the server did not know once more" \
    at_most 2003 "$(calls evalsha)"
check "... not fewer" at_most "$(calls evalsha)" 2000
check "... of which at most 3 were sent whole" at_most 3 "$(calls eval)"
check "... and no message" same 0 "$(calls publish)"
check "... and no subscription" same 0 "$(calls subscribe)"

# looked_for PLUGIN: each command of its scripts is one that a new connection looks for.
looked_for() {
    local command
    while read -r command; do
        case $command in PUBLISH | INFO | CLUSTER) continue ;; esac # waiters ask; the set-up and the guard ask by themselves
        grep -rq --include=config.c "\"$command\"" "$1/plugins/$2" && continue
        echo "$command is not in config.c of plugins/$2"
        return 1
    done < <(grep -oh "call('[A-Z]*'" "$1/plugins/$2/lua/"*.lua | cut -d"'" -f2 | sort -u)
}
check "the server is asked for each command of the scripts of redis" looked_for "$1" redis
check "... and of redlock" looked_for "$1" redlock

# Contended: a place in the queue, a release that grants, and what places cost while waiting.
reset
began=$SECONDS
check "8 processes of $count acquisitions of 5 ms, one at a time" "$bin/redis_load" "$uri" 8 "$count" 5
evals=$(calls evalsha)
refreshes=$((8 * (SECONDS - began + 3))) # one a second and a process, and one for the first watch
check "... in at most 2.2 scripts each, beside refreshes ($evals)" \
    at_most $((8 * count * 22 / 10 + refreshes)) "$evals"

# Other programs with the same key, both ways. Debian's python has Debian's redis-py.
py_holds() {
    /usr/bin/python3 - "$port" "$bin/dlock" "$raw" <<'PY'
import redis, subprocess, sys
r = redis.Redis(port=int(sys.argv[1]))
run = lambda: subprocess.run([sys.argv[2], '-q', '-u', sys.argv[3], 'run', '--nowait', 'job', '--', 'true']).returncode
lock = redis.lock.Lock(r, 'job', timeout=60)
assert lock.acquire(blocking=False)
assert run() == 75, 'dlock went past redis-py'
lock.release()
assert run() == 0, 'dlock was kept out of a free name'
assert lock.acquire(blocking=False), 'redis-py was kept out of a free name'
lock.release()
PY
}
dlock_holds() {
    "$bin/dlock" -u "$raw" run job -- /usr/bin/python3 - "$port" <<'PY'
import redis, sys
r = redis.Redis(port=int(sys.argv[1]))
assert not redis.lock.Lock(r, 'job', timeout=60).acquire(blocking=False), 'redis-py went past dlock'
PY
}
check "redis-py's Lock keeps dlock out" py_holds
check "dlock keeps redis-py's Lock out" dlock_holds

# C17: as core hands it to the plugin, too.
tls_typed_without_the_s() {
    local option
    for option in ca=/etc/ca.pem verify=full; do
        "$bin/dlock" -u "redis://127.0.0.1:$port?$option" run job -- touch "$tap_tmp/ran" 2>"$tap_tmp/err"
        same 64 $? && [ ! -e "$tap_tmp/ran" ] &&
            grep -q "${option%%=*}= is for TLS: rediss://" "$tap_tmp/err" && continue
        cat "$tap_tmp/err"
        return 1
    done
}
check "options of TLS are refused where there is none" tls_typed_without_the_s

# without_tls MESSAGE: with the plugins of $tap_tmp/plugins, TLS is 69, for that reason.
without_tls() {
    local scheme
    for scheme in rediss://127.0.0.1 redlocks://127.0.0.1,127.0.0.2,127.0.0.3; do
        DLOCK_PLUGIN_PATH=$tap_tmp/plugins "$bin/dlock" -u "$scheme" \
            run job -- touch "$tap_tmp/ran" 2>"$tap_tmp/err"
        same 69 $? && [ ! -e "$tap_tmp/ran" ] && grep -q "$1" "$tap_tmp/err" && continue
        cat "$tap_tmp/err"
        return 1
    done
}

tls_module=$tap_tmp/plugins/tls_for_dlock.so
mkdir "$tap_tmp/plugins"
cp "$bin/../lib/dlock/"dlock_red{is,lock}.so "$tap_tmp/plugins"
check "without the module for TLS it is 69, and the directory is said" \
    without_tls "tls_for_dlock.so is not in $tap_tmp/plugins"
touch "$tls_module"
chmod 666 "$tls_module"
check "... also if others may write it" without_tls "$tls_module: others may write it"
chmod 644 "$tls_module"
check "... also if it will not load" without_tls "$tls_module: file too short"

# Nothing is left behind that does not end by itself.
ends_by_itself() {
    local key
    while read -r key; do
        [ "$(redis-cli -p "$port" PTTL "$key")" -ge 0 ] && continue
        echo "$key does not"
        return 1
    done < <(redis-cli -p "$port" --scan)
}
check "every key ends by itself" ends_by_itself
tap_end
