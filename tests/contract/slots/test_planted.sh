#!/bin/bash
# SPDX-License-Identifier: MIT
# Does dlock-slot-check see the mistakes that dlock-conformance cannot see? The example plugin passes;
# each mistake that is planted in a copy of it, or of its server, fails the case that is named.
#
#     test_planted.sh SOURCE-DIR EXAMPLE-DIR BIN-DIR INCLUDE-DIR C-COMPILER [five]
#
# five: no more than the first five mistakes; the example has passed elsewhere.
set -u
umask 022 # the loader refuses what a group may write
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
example=$2 bin=$3 include=$4 cc=$5
right=$tap_tmp/right

# build DIR: the plugin and the server of the sources there.
build() {
    "$cc" -std=c11 -D_GNU_SOURCE -shared -fPIC -fvisibility=hidden -I"$include" \
        -o "$1/dlock_tcplease.so" "$1/tcplease.c" "$1/link.c" &&
        "$cc" -std=c11 -D_GNU_SOURCE -o "$1/tcplease-server" "$1/server.c"
}

# slot_check DIR [OPTION...]
slot_check() {
    local dir=$1
    shift
    "$example/test.sh" "$bin/dlock-slot-check" "$dir/tcplease-server" "$dir/dlock_tcplease.so" "$@"
}

copy() {
    mkdir "$1" && cp "$example"/*.[ch] "$1"
}

# replace FILE OLD NEW: OLD has to be there once.
replace() {
    python3 - "$@" <<'PYTHON'
import sys
path, old, new = sys.argv[1:]
text = open(path).read()
if text.count(old) != 1:
    sys.exit(f"{path} has {text.count(old)} times: {old}")
open(path, "w").write(text.replace(old, new))
PYTHON
}

# caught CASE FILE OLD NEW [FILE OLD NEW]...: the case fails.
caught() {
    local case=$1 dir status=0
    dir=$(mktemp -d "$tap_tmp/wrong.XXXX") && cp "$example"/*.[ch] "$dir" || return
    shift
    while [ $# -gt 0 ]; do
        replace "$dir/$1" "$2" "$3" || return
        shift 3
    done
    build "$dir" || return
    slot_check "$dir" --only "$case" >"$tap_tmp/out" 2>&1 || status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 1 ] && grep -q "^not ok 1 - .* $case " "$tap_tmp/out"
}

# A server that reads its clock once a second, and was stopped.
caught_when_stopped() {
    local dir=$tap_tmp/ticks
    copy "$dir" && replace "$dir/server.c" 'static int64_t tick_ms, ticked_ms;' \
        'static int64_t tick_ms = 1000, ticked_ms;' && build "$dir" || return
    slot_check "$dir" --only lease_after_a_stop >"$tap_tmp/out" 2>&1
    local status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 1 ] && grep -q 'is gone after .* two holders' "$tap_tmp/out"
}

passes() {
    slot_check "$right" >"$tap_tmp/out" 2>&1
    local status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 0 ] && ! grep -q '# SKIP no --' "$tap_tmp/out" &&
        grep -q 'batch_cut .*# SKIP no trylock_batch$' "$tap_tmp/out" &&
        grep -q 'wait_without_an_answer .* # SKIP no WATCH and no NATIVE_WAIT$' "$tap_tmp/out" &&
        tail -n 1 "$tap_tmp/out" | grep -qE '^# (1[5-9]|[2-9][0-9]) cases run, [0-9]+ not applicable, 0 failed$'
}

copy "$right"
check "the example builds" build "$right"
[ "${6-}" = five ] || check "it passes each case that it can be asked" passes

unanswered='    if (status != DLOCK_OK)
        return status;
    if (answered(answer, "busy'
unlocked='    if (status != DLOCK_OK)
        return status;
    if (strcmp(answer, "lost") == 0)
        return dlock_fail(err, ORIGIN, DLOCK_LOST, 0, "%s: the lease has ended, or was broken",
                          session->link.endpoint);
    return strcmp'
asked='    if (status == DLOCK_UNKNOWN) return'

# --- the five that a stranger planted, and dlock-conformance passed ---

check "BUSY for UNKNOWN" caught answer_swallowed tcplease.c "$unanswered" \
    "$asked DLOCK_BUSY;
$unanswered"
check "UNAVAILABLE for UNKNOWN" caught answer_swallowed link.c \
    'DLOCK_UNKNOWN, 0, "no answer in time"' 'DLOCK_UNAVAILABLE, 0, "no answer in time"'
check "a session is used again after a timeout" caught late_answer_is_nobodys \
    link.c '#define ORIGIN    "tcplease"' '#define ORIGIN    "tcplease"
static int kept = -1;' \
    link.c '        (void)close(link->fd);
    link->fd = -1;' '        kept = link->fd;
    link->fd = -1;' \
    link.c '    link->fd = socket(' '    if (kept >= 0) {
        link->fd = kept;
        kept = -1;
        return DLOCK_OK;
    }
    link->fd = socket(' \
    link.c 'link->broken || link_stale(link)' 'link->broken' \
    tcplease.c 'if (strcmp(answer, "tcplease 1") != 0)' 'if (answer[0] == 0)'
check "the same token again is BUSY" caught same_token \
    server.c 'lease != NULL && strcmp(lease->token, token) != 0' 'lease != NULL'
check "a lease of a server that was stopped ends at once" caught_when_stopped

[ "${6-}" != five ] || tap_end

# --- and others ---

check "UNAVAILABLE for a request that was cut" caught request_late link.c \
    'DLOCK_UNKNOWN, 0, "no answer in time"' 'DLOCK_UNAVAILABLE, 0, "no answer in time"'
check "UNAVAILABLE for an answer that was cut" caught answer_cut link.c \
    'DLOCK_UNKNOWN, got < 0 ? errno : 0,' 'DLOCK_UNAVAILABLE, got < 0 ? errno : 0,'
check "OK for an unlock without an answer" caught request_swallowed tcplease.c "$unlocked" \
    "$asked DLOCK_OK;
$unlocked"
check "LOST for an unlock without an answer" caught answer_swallowed tcplease.c "$unlocked" \
    "$asked DLOCK_LOST;
$unlocked"
check "OK for a renewal without an answer" caught request_swallowed tcplease.c \
    'status = link_ask(&session->link, line, answer, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    if (strcmp(answer, "lost") == 0)' 'status = link_ask(&session->link, line, answer, deadline_ns, err);
    if (status != DLOCK_OK) {
        op->grant.lease_ms = op->req->ttl_ms;
        return DLOCK_OK;
    }
    if (strcmp(answer, "lost") == 0)'
check "a renewal that was sent is UNAVAILABLE" caught renewal_in_doubt link.c \
    'DLOCK_UNKNOWN, 0, "no answer in time"' 'DLOCK_UNAVAILABLE, 0, "no answer in time"'
check "half an answer is an answer" caught half_an_answer link.c \
    "if (answer[used - 1] != '\\n')" 'if (used < 2)'
check "a call that goes on past its deadline" caught answer_swallowed link.c \
    '(deadline_ns - link->host' '(deadline_ns + 9000 * NS_PER_MS - link->host'
check "a renewal ends by the deadline of its element" caught slow_network tcplease.c \
    'renew_one(self, ops[i], deadline_ns, err)' 'renew_one(self, ops[i], ops[i]->req->deadline_ns, err)'
check "a fence from a step before the lock is taken" caught fence_of_the_step tcplease.c '#include <string.h>' '#include <string.h>
#include <time.h>' tcplease.c \
    '    request_begin(line, sizeof line, "take", req);' '    struct timespec early;

    (void)clock_gettime(CLOCK_REALTIME, &early);
    request_begin(line, sizeof line, "take", req);' tcplease.c \
    '    grant->fence = (uint64_t)fence_and_lease[0];' \
    '    grant->fence = (uint64_t)early.tv_sec * 1000000 + (uint64_t)early.tv_nsec / 1000;'
check "a renewal makes a lease" caught renew_makes_nothing server.c \
    '    int any = strcmp' '    if (lease == NULL && strcmp(verb, "keep") == 0) {
        take(name, token, ttl_ms, "-", out);
        (void)snprintf(out, OUT_MAX, "ok %" PRId64, ttl_ms);
        return;
    }
    int any = strcmp'
check "the same token shortens its lease" caught same_token server.c \
    'if (end_ms > lease->end_ms)' 'if (end_ms > 0)'

# --- the command line ---

uses() { # uses STATUS WORDS ARGUMENT...: ends so, and says that
    local status=0 wanted=$1 words=$2
    shift 2
    "$bin/dlock-slot-check" "$@" >"$tap_tmp/out" 2>&1 || status=$?
    cat "$tap_tmp/out"
    same "$wanted" "$status" && grep -qF -e "$words" "$tap_tmp/out"
}
so=$right/dlock_tcplease.so
check "no URI is a mistake in use" uses 64 'want a plugin and a URI' "$so"
check "a proxy elsewhere, too" uses 64 'does not have the address' --proxy 127.0.0.1:2 "$so" tcplease://127.0.0.1:1
check "no plugin, too" uses 64 'is no file of a plugin' --proxy 127.0.0.1:1 /none/dlock_x.so tcplease://127.0.0.1:1
check "a bad step, too" uses 64 'bad value "0"' --step 0 --proxy 127.0.0.1:1 "$so" tcplease://127.0.0.1:1
check "without --proxy, what needs it is not applicable" uses 0 '# SKIP no --proxy' memory memory://planted
check "--only takes the name of a case" uses 0 '# 1 cases run, 0 not applicable, 0 failed' --only same_token memory memory://planted
check "--list says what a case needs" uses 0 'answer_cut                         [TRY-4 TRY-5 REN-4 UNL-2] needs --proxy' --list
check "a store that is not there is a failure" uses 1 'cannot reach' --proxy 127.0.0.1:1 "$so" tcplease://127.0.0.1:1
check "--help has its own options" uses 0 '--stop-cmd CMD' --help
check "--list has a sentence on each case" uses 0 'An answer that came too late' --list
tap_end
