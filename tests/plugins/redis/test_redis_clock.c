/* SPDX-License-Identifier: MIT */
/* What happens when the server's wall clock steps, which it must not (failures T21, T22)? Exclusion
 * is not promised then; that the fences rise is. */
#include "redis_kit.h"
#include "skewed_server.h"

#include <criterion/criterion.h>

static struct dlt_skewed skewed;
static struct dlt_redis server;
static struct dlt_session s;
static struct dlt_request a, b;

static void set_up(void)
{
    dlt_skewed_start(&skewed, dlt_store_redis(&server));
    cr_assert_eq(dlt_session_start(&s, &server), DLOCK_OK);
    dlt_request(&s, &a, "job", 'a', 2000);
    dlt_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_skewed_stop(&skewed);
}

TestSuite(clock, .init = set_up, .fini = tear_down, .timeout = 60);

static void a_step_forward(uint32_t mode)
{
    uint64_t last = 0;

    a.req.mode = mode;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence + s.grant.fence_room;
    dlt_skewed_step(&skewed, DLT_HOUR_NS);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK, "the lease ended an hour early");
    cr_assert_gt(s.grant.fence, last);
    last = s.grant.fence + s.grant.fence_room;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "and the holder is told at its next renewal");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    dlt_skewed_step(&skewed, -2 * DLT_HOUR_NS);
    cr_assert_eq(dlt_unlock(&s, &b), DLOCK_OK);
    a.req.mode = DLOCK_EXCLUSIVE;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_gt(s.grant.fence, last, "C6, with the clock two hours back");
}

Test(clock, C6_a_step_forward_ends_the_lease_of_a_writer)
{
    a_step_forward(DLOCK_EXCLUSIVE);
}

Test(clock, C6_a_step_forward_ends_the_lease_of_a_reader)
{
    a_step_forward(DLOCK_SHARED);
}

Test(clock, a_step_back_keeps_dead_holders_and_break_helps)
{
    a.req.ttl_ms = 5000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_skewed_step(&skewed, -DLT_HOUR_NS);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 3000 * 1000);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.lease_ms, 5000, "no more than was asked for, whatever the store counts");
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
}

/* A place is lost by a step forward; a new one is to be had. */
Test(clock, a_step_forward_ends_places)
{
    b.req.ttl_ms = INT64_C(86400000);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&s, &a), DLOCK_BUSY);
    dlt_skewed_step(&skewed, DLT_HOUR_NS);
    cr_assert_eq(dlt_refresh(&s, &a), DLOCK_BUSY);
    cr_assert_eq(s.grant.flags & DLOCK_GRANT_QUEUED, 0);
    cr_assert_eq(dlt_leave(&s, &a), DLOCK_OK);
    a.req.token[0] = 'n';
    cr_assert_eq(dlt_enqueue(&s, &a), DLOCK_BUSY);
    cr_assert_neq(s.grant.flags & DLOCK_GRANT_QUEUED, 0);
    cr_assert_eq(dlt_unlock(&s, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&s, &a, 2000), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}
