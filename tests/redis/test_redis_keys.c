/* SPDX-License-Identifier: MIT */
/* Keys that cannot be written, were deleted, or are somebody else's: is what is held kept, given
 * back and passed on all the same? (TRY-6, REN-1, UNL-1, LEA-1) */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_redis server;
static struct dlt_session s, other; /* of two clients */
static struct dlt_request a, b;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(dlt_session_start(&s, &server), DLOCK_OK);
    cr_assert_eq(dlt_session_start(&other, &server), DLOCK_OK);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&other);
    dlt_redis_stop(&server);
}

TestSuite(keys, .init = set_up, .fini = tear_down, .timeout = 60);

/* Without memory nothing new is taken, and what is held can be kept, given back and passed on. */
Test(keys, OOM_refuses_new_locks_and_ends_none)
{
    struct dlt_request c, d;

    dlt_request(&s, &d, (const char *)a.req.name, 'd', 60000);
    dlt_request(&s, &c, "more", 'c', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&other, &b), DLOCK_BUSY);
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 1");
    cr_assert_eq(dlt_try(&s, &c), DLOCK_UNAVAILABLE);
    cr_assert(strstr(s.err.message, "OOM") != NULL, "%s", s.err.message);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{more} dl:{more}:m"), "0");
    c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &c), DLOCK_UNAVAILABLE, "nor a shared one");
    c.req.mode = DLOCK_EXCLUSIVE;
    cr_assert_eq(dlt_enqueue(&s, &d), DLOCK_UNAVAILABLE, "nor a place");
    s.ops->forget(s.self, &d.req);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_refresh(&other, &b), DLOCK_BUSY, "%s", other.err.message);
    cr_assert_neq(other.grant.flags & DLOCK_GRANT_QUEUED, 0);
    a.req.flags = DLOCK_REQ_DOWNGRADE;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_watch(&other, &b, 2000), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&other, &b), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &c), DLOCK_UNAVAILABLE);
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 0");
    cr_assert_eq(dlt_try(&s, &c), DLOCK_OK);
}

Test(keys, OOM_a_reader_is_renewed)
{
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 1");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

Test(keys, UNL_1_a_reader_needs_no_key_but_its_own)
{
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET dl:{job}:m foreign PX 5000");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

Test(keys, LEA_1_who_holds_needs_no_queue)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET dl:{job}:q foreign PX 5000");
    cr_assert_eq(s.ops->leave(s.self, dlt_due(&s, &a, 1000), &s.err), DLOCK_OK, "%s",
                 s.err.message);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job}"), "0");
}

Test(keys, REN_1_what_is_not_ours_keeps_its_end)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET dl:{job}:m foreign PX 5000");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_leq(strtol(dlt_redis_ask(&server, "PTTL dl:{job}:m"), NULL, 10), 5000);
}

Test(keys, REN_1_a_renewal_needs_no_queue)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET dl:{job}:q foreign PX 5000");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* The name is free all the same, and whoever looks at the log sees why nobody was told. */
Test(keys, UNL_1_what_could_not_be_passed_on_is_logged_once)
{
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        (void)dlt_redis_ask(&server, "ZADD dl:{job}:q 1 x");
        (void)dlt_redis_ask(&server, "SET dl:{job}:w foreign PX 5000");
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
        (void)dlt_redis_ask(&server, "DEL dl:{job}:q dl:{job}:w");
    }
    cr_assert_eq(s.host.logs, 1);
}

Test(keys, TRY_6_what_a_downgrade_begins_anew_ends)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "DEL dl:{job}:m");
    a.req.flags = DLOCK_REQ_DOWNGRADE;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_gt(strtol(dlt_redis_ask(&server, "TTL dl:{job}:m"), NULL, 10), 80000);
}
