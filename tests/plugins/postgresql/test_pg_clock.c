/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_lease.c */
/* What happens to strategy row when the server's wall clock steps, which it must not while locks
 * are leases? Exclusion is not promised then; that the fences rise is. */
#include "row_kit.h"
#include "skewed_server.h"

static struct dlt_skewed skewed;

static void set_up(void)
{
    dlt_skewed_start(&skewed, dlt_store_postgres(&server));
    open_all("clock");
}

static void tear_down(void)
{
    close_all();
    dlt_skewed_stop(&skewed);
}

TestSuite(clock, .init = set_up, .fini = tear_down);

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
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "and the holder learns of it at its next renewal");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    dlt_skewed_step(&skewed, -2 * DLT_HOUR_NS);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "what another owner has followed stays lost");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    cr_assert_gt(u.grant.fence, last, "C6, with the clock an hour back");
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
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_gt(t.grant.holder_ms, 3000 * 1000);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "the store counts on");
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
}

Test(clock, a_step_forward_ends_queue_entries_and_their_order_goes)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    dlt_skewed_step(&skewed, DLT_HOUR_NS);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST, "its attempt is over, and it asks again");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
}

Test(clock, a_step_back_leaves_the_dead_in_the_queue_for_one_grant)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b); /* dies */
    queue(&u, &c);
    dlt_skewed_step(&skewed, -DLT_HOUR_NS);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_BUSY);
    cr_assert_leq(u.grant.holder_ms, 3000, "the grant to the dead one is as short as ever");
    dlt_sleep_ms(1600);
    cr_assert_eq(refresh(&u, &c), DLOCK_BUSY);
    dlt_sleep_ms(1600);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
}
