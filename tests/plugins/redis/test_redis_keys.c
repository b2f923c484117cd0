/* SPDX-License-Identifier: MIT */
/* Tests: plugins/resp/keys.c */
/* Keys that cannot be written, were deleted, or are somebody else's: is what is held kept, given
 * back and passed on all the same? (TRY-6, REN-1, UNL-1, DEQ-1) */
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

Test(keys, DEQ_1_who_holds_needs_no_queue)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET dl:{job}:q foreign PX 5000");
    cr_assert_eq(s.ops->dequeue(s.self, dlt_due(&s, &a, 1000), &s.err), DLOCK_OK, "%s",
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

Test(keys, DEQ_1_who_reads_needs_no_queue)
{
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET dl:{job}:q foreign PX 5000");
    cr_assert_eq(dlt_leave(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job}:r"), "0");
    cr_assert_eq(dlt_leave(&s, &a), DLOCK_CONFIG, "it may have a place");
}

Test(keys, TRY_2_who_holds_needs_no_queue)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET dl:{job}:q foreign PX 5000");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.grant.waiters, 0);
}

Test(keys, OOM_a_lease_whose_counter_is_lost)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "PEXPIRE dl:{job} 90000");
    (void)dlt_redis_ask(&server, "DEL dl:{job}:m");
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 1");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

Test(keys, BRK_1_readers_beside_a_dead_one_need_no_hash)
{
    a.req.mode = b.req.mode = DLOCK_SHARED;
    b.req.ttl_ms = 1; /* it dies */
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    dlt_sleep_ms(5);
    (void)dlt_redis_ask(&server, "SET dl:{job}:m foreign PX 5000");
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job}:r"), "0");
}

/* Nobody could take it. */
Test(keys, BRK_1_a_name_whose_hash_is_something_else_is_not_free)
{
    struct dlt_holder holders[1];
    size_t count = 1;

    (void)dlt_redis_ask(&server, "SET dl:{job}:m foreign PX 5000");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_CONFIG);
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_CONFIG);
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_CONFIG);
}

Test(keys, REN_3_a_downgrade_beside_a_counter_that_is_no_number)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "HSET dl:{job}:m f 1e300");
    a.req.flags = DLOCK_REQ_DOWNGRADE;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    a.req.flags = 0;
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_gt(s.grant.fence, UINT64_C(1500000000000000));
}

/* Of readers who were exclusive first, too. */
Test(keys, TRY_2_nothing_is_kept_of_downgraded_readers_who_died)
{
    for (unsigned char i = 0; i < 20; i++) {
        dlt_request(&s, &a, "job", (unsigned char)('A' + i), 60000);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        a.req.flags = DLOCK_REQ_DOWNGRADE;
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
        a.req.flags = 0;
        (void)dlt_redis_ask(&server, "DEL dl:{job}:r"); /* as it ends by itself */
    }
    cr_assert_leq(strtol(dlt_redis_ask(&server, "HLEN dl:{job}:m"), NULL, 10), 3);
    cr_assert_gt(strtol(dlt_redis_ask(&server, "TTL dl:{job}:m"), NULL, 10), 80000);
}

/* A retry may come when what it asks about has ended. */
Test(keys, TRY_2_a_reader_who_comes_again_is_not_taken_for_the_dead_one)
{
    struct dlt_holder holders[4];
    size_t count = 4;
    uint64_t fence = 0;

    a.req.mode = b.req.mode = DLOCK_SHARED;
    a.req.label = b.req.label = "reads";
    b.req.ttl_ms = 1; /* it dies */
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    dlt_sleep_ms(5);
    b.req.ttl_ms = 60000;
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    fence = s.grant.fence;
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 2);
    for (size_t i = 0; i < count; i++) {
        cr_assert_gt(holders[i].fence, 0);
        cr_assert_str_eq(holders[i].label, "reads");
    }
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    cr_assert_eq(s.grant.fence, fence);
}

/* They are begun anew. */
Test(keys, TRY_5_a_queue_whose_counters_are_no_numbers)
{
    static const char *const foreign[] = {"inf", "nan", "1e300", "-5", "x"};

    for (size_t i = 0; i < 2 * sizeof foreign / sizeof foreign[0]; i++) {
        struct dlt_request c;
        const char *field = i % 2 == 0 ? "n" : "x", *value = foreign[i / 2];

        dlt_request(&s, &c, "job", 'c', 60000);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        (void)dlt_redis_ask(&server, "HSET dl:{job}:w %s %s", field, value);
        cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY, "%s %s: %s", field, value, s.err.message);
        cr_assert_gt(strtol(dlt_redis_ask(&server, "PTTL dl:{job}:q"), NULL, 10), 0);
        cr_assert_gt(strtol(dlt_redis_ask(&server, "PTTL dl:{job}:w"), NULL, 10), 0);
        (void)dlt_redis_ask(&server, "HSET dl:{job}:w %s %s", field, value);
        cr_assert_eq(dlt_enqueue(&s, &c), DLOCK_BUSY, "%s %s: %s", field, value, s.err.message);
        cr_assert_eq(s.grant.queue_position, 1, "%s %s", field, value);
        s.ops->forget(s.self, &b.req);
        s.ops->forget(s.self, &c.req);
        cr_assert_eq(dlt_leave(&s, &b), DLOCK_OK);
        cr_assert_eq(dlt_leave(&s, &c), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        (void)dlt_redis_ask(&server, "DEL dl:{job}:w");
    }
}
