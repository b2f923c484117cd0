/* SPDX-License-Identifier: MIT */
/* What happens when the server's wall clock steps, which it must not where locks are leases
 * (failures T21, T22)? Exclusion is not promised then; that the fences rise is. */
#include "my_kit.h"
#include "skewed_server.h"
#include "strategies.h"

static struct dlt_skewed skewed;
static struct dlt_maria server;
static struct dlt_session s, t;
static struct dlt_request a, b;

static void begin(const char *strategy)
{
    dlt_skewed_start(&skewed, dlt_store_maria(&server));
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "strategy", strategy);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
}

static void end(void)
{
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_skewed_stop(&skewed);
}

static void a_step_forward(uint32_t mode)
{
    uint64_t last = 0;

    a.req.mode = mode;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence + s.grant.fence_room;
    dlt_skewed_step(&skewed, DLT_HOUR_NS);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "the lease ended an hour early");
    cr_assert_gt(t.grant.fence, last);
    last = t.grant.fence + t.grant.fence_room;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "and the holder is told at its next renewal");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    dlt_skewed_step(&skewed, -2 * DLT_HOUR_NS);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    if (mode == DLOCK_SHARED) /* what ran out has time again */
        (void)dlt_break(&t, "job", NULL);
    dlt_request(&s, &a, "job", 'n', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_gt(s.grant.fence, last, "C6, with the clock an hour back");
}

LEASED(C6_a_step_forward_ends_the_lease_of_a_writer)
{
    a_step_forward(DLOCK_EXCLUSIVE);
}

LEASED(C6_a_step_forward_ends_the_lease_of_a_reader)
{
    a_step_forward(DLOCK_SHARED);
}

LEASED(a_step_back_keeps_dead_holders_and_break_helps)
{
    a.req.ttl_ms = 5000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_skewed_step(&skewed, -DLT_HOUR_NS);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_gt(t.grant.holder_ms, 3000 * 1000);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "the store counts on");
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
}

PINNED(C1_C6_no_clock_matters)
{
    uint64_t last = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence + s.grant.fence_room;
    dlt_skewed_step(&skewed, DLT_HOUR_NS);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    dlt_skewed_step(&skewed, -2 * DLT_HOUR_NS);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_gt(t.grant.fence, last);
}
