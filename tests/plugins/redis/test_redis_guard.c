/* SPDX-License-Identifier: MIT */
/* Tests: plugins/resp/guard.c */
/* Does a server that was just started, and may have forgotten, grant nothing? (contract, section 3
 * (d); C1) */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_redis server;
static struct dlt_session s, direct; /* with a guard, and without */
static struct dlt_request a, b;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(dlt_session_start(&s, &server), DLOCK_OK);
    cr_assert_eq(dlt_session_start(&direct, &server), DLOCK_OK);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&direct);
    dlt_redis_stop(&server);
}

TestSuite(guard, .init = set_up, .fini = tear_down, .timeout = 60);

/* OPN-2: what the guard gives, and what it gives besides at a durable server. */
Test(guard, restart_guard_is_a_crash_safety_of_its_own)
{
    struct dlt_redis durable;
    struct dlt_session d;

    cr_assert_eq(direct.info.caps & (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE), 0);
    dlt_session_close(&s);
    dlt_session_option(&s, "restart_guard", "30000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(s.info.caps & (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE),
                 DLOCK_CAP_CRASH_SAFE);
    dlt_session_close(&s);
    dlt_session_option(&s, "ttl", "60000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG, "the URI says that it cannot be");
    cr_assert(strstr(s.err.message, "add restart_guard=60s") != NULL, "%s", s.err.message);

    cr_assert(dlt_redis_start(&durable, (const char *[]){"--appendonly", "yes", "--appendfsync",
                                                         "always", NULL}),
              "%s", durable.why);
    dlt_session_init(&d, "redis", durable.address);
    dlt_session_trusted(&d); /* who may ask for appendfsync */
    dlt_session_option(&d, "restart_guard", "30000");
    cr_assert_eq(dlt_session_open(&d), DLOCK_OK, "%s", d.err.message);
    cr_assert_eq(d.info.caps & (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE),
                 DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE);
    dlt_session_close(&d);
    dlt_redis_stop(&durable);
}

struct guarded {
    struct dlt_session view;
    struct dlt_request request;
    enum dlock_status status;
    int64_t ended_ns;
    pthread_t thread;
};

static void *guarded_run(void *arg)
{
    struct guarded *caller = arg;

    caller->status = dlt_try(&caller->view, &caller->request);
    caller->ended_ns = dlt_host_now(caller->view.shared);
    return NULL;
}

static void guarded_start(struct guarded *caller, unsigned char owner)
{
    dlt_session_join(&caller->view, &s);
    caller->view.call_ms = 5000;
    dlt_request(&caller->view, &caller->request, "job", owner, 3000);
    cr_assert_eq(pthread_create(&caller->thread, NULL, guarded_run, caller), 0);
}

Test(guard, restart_guard_keeps_a_server_that_may_have_forgotten_from_granting)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_session_close(&s);
    dlt_session_option(&s, "restart_guard", "3600000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY);
    cr_assert(strstr(s.err.message, ": the server was started ") != NULL, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "a lock from before may still be in use for 3") != NULL, "%s",
              s.err.message);
    cr_assert(strstr(s.err.message, "Z); see restart_guard") != NULL, "%s", s.err.message);
    cr_assert_gt(s.grant.holder_ms, 3000000);
    cr_assert_leq(s.grant.holder_ms, 3601000);
    cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY);
    cr_assert_eq(s.grant.flags, DLOCK_GRANT_UNREPORTED, "no place in the queue");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "what is held goes on");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    dlt_session_close(&s);
    dlt_session_option(&s, "waiter_lease", "1000");
    dlt_session_option(&s, "restart_guard", "1000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "add restart_guard=60s to the URI of all clients") != NULL,
              "%s", s.err.message);
    b.req.ttl_ms = 1000; /* as long as the guard; nothing is done while it lasts */
    while (dlt_try(&s, &b) == DLOCK_BUSY)
        dlt_sleep_ms(20);
    cr_assert_geq(s.grant.fence, 1);
    cr_assert_geq(
        strtol(strstr(dlt_redis_ask(&server, "INFO server"), "uptime_in_seconds:") + 18, NULL, 10),
        2);
}

/* ... which may have forgotten an unlock, from letting anybody adopt a lease. */
Test(guard, REN_6_restart_guard_keeps_a_token_from_being_adopted)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_session_close(&s);
    dlt_session_option(&s, "restart_guard", "3600000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    a.req.flags = DLOCK_REQ_ADOPT;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE);
    cr_assert(strstr(s.err.message, "Z); see restart_guard") != NULL, "%s", s.err.message);
    a.req.flags = 0;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "its holder renews it: %s", s.err.message);
    a.req.flags = DLOCK_REQ_ADOPT;
    cr_assert_eq(dlt_renew(&direct, &a), DLOCK_OK, "%s", direct.err.message);
}

/* ... nor may a renewal, or an adoption, which is one, outlast the guard of the next restart. */
Test(guard, restart_guard_bounds_renewals)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_session_close(&s);
    dlt_session_option(&s, "waiter_lease", "1000");
    dlt_session_option(&s, "restart_guard", "4000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    a.req.ttl_ms = 60000;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_leq(s.grant.lease_ms, 4000, "of what a client without a guard left longer: %lld",
                  (long long)s.grant.lease_ms);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    a.req.ttl_ms = 3000;
    while (dlt_try(&s, &a) == DLOCK_BUSY)
        dlt_sleep_ms(20);
    a.req.ttl_ms = 60000;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_leq(s.grant.lease_ms, 4000);
    cr_assert_gt(s.grant.lease_ms, 3000);
}

/* ... also by the queue: what else a guarded client does passes nothing on. */
Test(guard, restart_guard_keeps_names_from_being_passed_on)
{
    struct dlt_request c;
    struct dlt_holder holders[2];
    size_t count = 2;

    dlt_session_close(&s);
    dlt_session_option(&s, "restart_guard", "3600000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    dlt_request(&direct, &c, "job", 'c', 60000);
    cr_assert_eq(dlt_try(&direct, &a), DLOCK_OK);
    b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_enqueue(&direct, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_enqueue(&direct, &c), DLOCK_BUSY);
    a.req.flags = DLOCK_REQ_DOWNGRADE;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1, "the reader was not let in");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_leave(&s, &b), DLOCK_OK);
    count = 2;
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 0, "nor the next one");
    cr_assert_eq(dlt_refresh(&direct, &c), DLOCK_OK, "a client without a guard may");
    direct.ops->forget(direct.self, &b.req);
    direct.ops->forget(direct.self, &c.req);
}

/* The client was connected when the server restarted; several threads ask at once. */
Test(guard, restart_guard_holds_for_the_first_question_after_a_restart)
{
    static struct guarded callers[8];
    int64_t up_ns = 0;

    dlt_session_close(&s);
    dlt_session_option(&s, "restart_guard", "3000");
    s.call_ms = 5000;
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    b.req.ttl_ms = 3000;
    while (dlt_try(&s, &b) == DLOCK_BUSY)
        dlt_sleep_ms(50);
    cr_assert_eq(dlt_unlock(&s, &b), DLOCK_OK);
    dlt_redis_kill(&server);
    up_ns = dlt_host_now(s.shared);
    cr_assert(dlt_redis_again(&server), "%s", server.why);
    for (int i = 0; i < 8; i++)
        guarded_start(&callers[i], (unsigned char)('0' + i));
    for (int i = 0; i < 8; i++) {
        (void)pthread_join(callers[i].thread, NULL);
        if (callers[i].ended_ns - up_ns < 3000 * DLT_NS_PER_MS)
            cr_assert_eq(callers[i].status, DLOCK_BUSY, "%d", i);
    }
}
