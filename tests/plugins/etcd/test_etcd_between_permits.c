/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/permit.c plugins/etcd/stand.c plugins/etcd/keep.c plugins/etcd/flight.c */
/* Does nobody get a permit of another one by what happens between the question and the Put? */
#include "between_kit.h"

static void open_semaphore(const char *test)
{
    open_all(test);
    a.req.limit = b.req.limit = c.req.limit = 2;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

static void u_takes(void)
{
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(u.grant.permit, 1);
}

Test(between, LIM_1_a_permit_that_another_client_takes_after_it_was_seen)
{
    open_semaphore("seen");
    at(2); /* a lease, the question, and the Put */
    plan.act = u_takes;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(keys_count("job/"), 2);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    at(1);
    plan.act = u_takes;
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_BUSY);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(t.grant.flags, DLOCK_GRANT_QUEUED);
    close_all();
}

/* The first one of the queue does not pass what an earlier request of its own has taken. */
Test(between, TRY_4_a_waiter_whose_permit_was_granted_and_not_told)
{
    open_semaphore("granted");
    u_takes();
    queue(&t, &b);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    at(1); /* the question, and the Put of the number */
    plan.silent = true;
    cr_assert_eq(refresh(&t, &b), DLOCK_UNKNOWN);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(t.grant.permit, 0);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "%s", t.err.message);
    close_all();
}

static void t_is_dropped(void)
{
    (void)dlt_etcd_ask(&server, "del ended/job/" KEY_OF_B);
}

Test(between, LIM_1_a_waiter_whose_entry_ends_at_its_turn_takes_no_permit)
{
    open_semaphore("ended");
    u_takes();
    queue(&t, &b);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    at(1);
    plan.act = t_is_dropped;
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(keys_count("job/"), 1);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.permit, 0);
    close_all();
}

Test(between, KEP_1_a_release_that_kept_and_was_not_told)
{
    open_semaphore("kept");
    a.req.flags = DLOCK_REQ_KEEP;
    a.req.keep_ms = 60000;
    at(1); /* a lease, and the Put */
    plan.silent = true;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNKNOWN);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(keys_count("job/"), 1);
    u_takes();
    close_all();
}
