/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/rpc.c */
/* What etcd says, and what may have been executed then. */
#include "rpc.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { UNPROCESSED = 1, ELSEWHERE = 2, LOGIN = 4 };

static void want(const struct etcd_call *call, enum dlock_status status, int flags)
{
    struct etcd_verdict verdict = etcd_rpc_judge(call);

    cr_assert_eq(verdict.status, status, "%d %s: %d", call->grpc_status, call->text,
                 (int)verdict.status);
    cr_assert_eq(verdict.unprocessed, (flags & UNPROCESSED) != 0, "%s", call->text);
    cr_assert_eq(verdict.elsewhere, (flags & ELSEWHERE) != 0, "%s", call->text);
    cr_assert_eq(verdict.login, (flags & LOGIN) != 0, "%s", call->text);
}

Test(errmap, TRY_4_calls_without_a_status)
{
    struct etcd_call call = {.end = ETCD_UNSENT};

    want(&call, DLOCK_UNAVAILABLE, UNPROCESSED | ELSEWHERE);
    call.end = ETCD_CUT;
    want(&call, DLOCK_UNKNOWN, ELSEWHERE);
    call.end = ETCD_OPEN;
    want(&call, DLOCK_UNKNOWN, ELSEWHERE);
    call.end = ETCD_FOREIGN;
    want(&call, DLOCK_PROTOCOL, ELSEWHERE);
    call.end = ETCD_NO_MEMORY;
    want(&call, DLOCK_NOMEM, UNPROCESSED);
}

static const struct row {
    int code;
    const char *text;
    enum dlock_status status;
    int flags;
} rows[] = {
    {0, "", DLOCK_OK, 0},
    {3, "etcdserver: user name is empty", DLOCK_AUTH, UNPROCESSED | LOGIN},
    {3, "etcdserver: revision of auth store is old", DLOCK_AUTH, UNPROCESSED | LOGIN},
    {2, "auth: revision in header is old", DLOCK_AUTH, UNPROCESSED | LOGIN},
    {3, "etcdserver: authentication failed, invalid user ID or password", DLOCK_AUTH, UNPROCESSED},
    {3, "etcdserver: request is too large", DLOCK_CONFIG, UNPROCESSED},
    {3, "etcdserver: too many operations in txn request", DLOCK_CONFIG, UNPROCESSED},
    {3, "etcdserver: duplicate key given in txn request", DLOCK_PROTOCOL, UNPROCESSED},
    {3, "from a proxy", DLOCK_UNKNOWN, 0},
    {5, "etcdserver: requested lease not found", DLOCK_LOST, UNPROCESSED},
    {5, "from a proxy", DLOCK_UNKNOWN, 0},
    {7, "etcdserver: permission denied", DLOCK_AUTH, UNPROCESSED},
    {8, "etcdserver: too many requests", DLOCK_UNAVAILABLE, UNPROCESSED},
    {8, "etcdserver: mvcc: database space exceeded", DLOCK_UNKNOWN, 0},
    {8, "grpc: received message larger than max (5 vs. 4)", DLOCK_CONFIG, UNPROCESSED},
    {9, "etcdserver: lease already exists", DLOCK_UNAVAILABLE, UNPROCESSED},
    {9, "etcdserver: authentication is not enabled", DLOCK_AUTH, UNPROCESSED},
    {11, "etcdserver: mvcc: required revision has been compacted", DLOCK_UNAVAILABLE, UNPROCESSED},
    {11, "etcdserver: too large lease TTL", DLOCK_CONFIG, UNPROCESSED},
    {12, "unknown service etcdserverpb.KV", DLOCK_PROTOCOL, UNPROCESSED | ELSEWHERE},
    {14, "etcdserver: no leader", DLOCK_UNAVAILABLE, UNPROCESSED | ELSEWHERE},
    {14, "etcdserver: not capable", DLOCK_UNAVAILABLE, UNPROCESSED | ELSEWHERE},
    {14, "etcdserver: rpc not supported for learner", DLOCK_UNAVAILABLE, UNPROCESSED | ELSEWHERE},
    {9, "etcdserver: rpc not supported for learner", DLOCK_UNAVAILABLE, UNPROCESSED | ELSEWHERE},
    {14, "etcdserver: leader changed", DLOCK_UNKNOWN, ELSEWHERE},
    {14, "etcdserver: server stopped", DLOCK_UNKNOWN, ELSEWHERE},
    {14, "etcdserver: request timed out", DLOCK_UNKNOWN, ELSEWHERE},
    {14, "etcdserver: request timed out, possibly due to previous leader failure", DLOCK_UNKNOWN,
     ELSEWHERE},
    {14, "", DLOCK_UNKNOWN, ELSEWHERE},
    {15, "etcdserver: corrupt cluster", DLOCK_UNAVAILABLE, UNPROCESSED},
    {16, "etcdserver: invalid auth token", DLOCK_AUTH, UNPROCESSED | LOGIN},
    {1, "context canceled", DLOCK_UNKNOWN, 0},
    {2, "raft proposal dropped", DLOCK_UNKNOWN, 0},
    {4, "context deadline exceeded", DLOCK_UNKNOWN, 0},
    {13, "stream terminated", DLOCK_UNKNOWN, 0},
};

Test(errmap, TRY_4_what_is_not_known_may_have_been_executed)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct etcd_call call = {.end = ETCD_ANSWERED, .grpc_status = rows[i].code};

        (void)snprintf(call.text, sizeof call.text, "%s", rows[i].text);
        want(&call, rows[i].status, rows[i].flags);
    }
}

Test(errmap, only_one_text_says_that_there_is_no_space)
{
    static const struct {
        int code;
        const char *message;
        bool no_space;
    } errors[] = {
        {8, "127.0.0.1:2379: etcdserver: mvcc: database space exceeded (compact it)", true},
        {8, "127.0.0.1:2379: etcdserver: too many requests", false},
        {8, "127.0.0.1:2379: rate limit exceeded", false},
        {2, "127.0.0.1:2379: etcdserver: mvcc: database space exceeded", false},
    };

    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct dlock_error err = DLOCK_ERROR_INIT;

        (void)dlock_fail(&err, "etcd", DLOCK_UNKNOWN, errors[i].code, "%s", errors[i].message);
        cr_assert_eq(etcd_rpc_no_space(&err), errors[i].no_space, "%s", errors[i].message);
    }
}
