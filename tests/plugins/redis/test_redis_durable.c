/* SPDX-License-Identifier: MIT */
/* Tests: plugins/resp/info.c plugins/redis/plugin.c */
/* Is a server durable that looks so at first sight, and is the cost of one that forgets said?
 * (OPN-2, C16) */
#include "probed.h"
#include "redis_kit.h"
#include "resp/guard.h"

#include <criterion/criterion.h>

static struct dlt_redis server;
static struct dlt_session s;

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_redis_stop(&server);
}

TestSuite(role, .fini = tear_down, .timeout = 60);
TestSuite(durable, .fini = tear_down, .timeout = 60);

static void start(const char *const *args)
{
    cr_assert(dlt_redis_start(&server, args), "%s", server.why);
    dlt_session_init(&s, "redis", server.address);
    dlt_session_trusted(&s); /* who may ask for appendfsync */
}

/* While the file is rewritten such a server does not wait for the disk. */
Test(durable, OPN_2_C16_a_server_that_does_not_sync_during_rewrites_is_not_durable)
{
    struct dlt_probed probed;

    start((const char *[]){"--appendonly", "yes", "--appendfsync", "always",
                           "--no-appendfsync-on-rewrite", "yes", NULL});
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(s.info.caps & (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE), 0);
    cr_assert_eq(dlt_probed_read(&probed, &s), DLOCK_OK, "%s", s.err.message);
    dlt_probed_has(&probed, "|append-only file, fsync=always, but not during a rewrite!|");
    cr_assert_eq(probed.clears, DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE);
    (void)dlt_redis_ask(&server, "CONFIG SET no-appendfsync-on-rewrite no");
    cr_assert_eq(dlt_probed_read(&probed, &s), DLOCK_OK, "%s", s.err.message);
    dlt_probed_has(&probed, "|append-only file, fsync=always|");
}

/* CONFIG SET appendonly yes: until the first file is written a crash forgets all. */
Test(durable, OPN_2_C16_a_server_whose_first_file_is_not_written_is_not_durable)
{
    const uint32_t durable = DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE;
    uint64_t caps = 0;

    start((const char *[]){"--appendfsync", "always", "--rdb-key-save-delay", "500000", NULL});
    for (int i = 0; i < 6; i++)
        (void)dlt_redis_ask(&server, "SET key%d x", i);
    (void)dlt_redis_ask(&server, "CONFIG SET appendonly yes");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(s.info.caps & durable, 0);
    while ((caps & durable) != durable) {
        dlt_session_close(&s);
        dlt_sleep_ms(100);
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
        caps = s.info.caps;
    }
}

/* C1: a master that became a writable replica grants and renews nothing, also on connections from
 * before. */
Test(role, OPN_1_C1_a_master_that_became_a_writable_replica)
{
    struct dlt_request a, b;

    start((const char *[]){"--replica-read-only", "no", NULL});
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "other", 'b', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "REPLICAOF 127.0.0.1 1");
    cr_assert_eq(dlt_try(&s, &b), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    (void)dlt_redis_ask(&server, "REPLICAOF NO ONE");
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}

static char logged[512];
static unsigned log_lines;

static void log_note(void *ctx, enum dlock_log_level level, const char *message)
{
    (void)ctx;
    cr_expect_eq(level, DLOCK_LOG_INFO, "%s", message);
    (void)snprintf(logged, sizeof logged, "%s", message);
    log_lines++;
}

/* OPN-2: without a guard less is promised: a line, the capabilities and doctor say so. */
Test(durable, OPN_2_no_guard)
{
    struct dlt_probed probed;

    start(NULL);
    s.host.table.log = log_note;
    dlt_session_option(&s, "restart_guard", "0");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_expect_eq(s.info.caps & DLOCK_CAP_CRASH_SAFE, 0u);
    cr_expect_eq(log_lines, 1u);
    cr_expect_not_null(strstr(logged, "restart_guard is off: " RESP_UNGUARDED), "%s", logged);
    cr_assert_eq(dlt_probed_read(&probed, &s), DLOCK_OK, "%s", s.err.message);
    dlt_probed_has(&probed, "restart_guard=0 s, the server is up for");
}

Test(durable, OPN_2_a_guard_is_nothing_to_tell)
{
    start(NULL);
    s.host.table.log = log_note;
    dlt_session_option(&s, "restart_guard", "30000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_expect_eq(log_lines, 0u, "%s", logged);
}
