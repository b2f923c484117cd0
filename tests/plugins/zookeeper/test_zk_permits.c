/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/permit.c plugins/zookeeper/take.c plugins/zookeeper/queue.c */
/* Is a permit of a semaphore one holder's only, also beside waiters, sessions that end and programs
 * that know no limits? */
#include "name_kit.h"

static struct dlt_request d;

static void open_semaphore(const char *test, uint32_t limit)
{
    open_all(test);
    dlt_request(&s, &d, "job", 'd', DLT_ZK_TTL_MS);
    a.req.limit = b.req.limit = c.req.limit = d.req.limit = limit;
}

static void want_permit(struct dlt_session *session, struct dlt_request *request, uint32_t permit)
{
    cr_assert_eq(dlt_try(session, request), DLOCK_OK, "%s", session->err.message);
    cr_assert_eq(session->grant.permit, permit, "permit %u, want %u", session->grant.permit,
                 permit);
}

Test(permits, LIM_2_the_lowest_one_and_a_fence_of_its_own)
{
    struct dlt_holder holders[4];
    size_t count = 4;
    uint64_t fence = 0;

    open_semaphore("lowest", 3);
    want_permit(&s, &a, 0);
    fence = s.grant.fence;
    want_permit(&t, &b, 1);
    cr_assert_gt(t.grant.fence, fence);
    want_permit(&u, &c, 2);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    want_permit(&s, &d, 1);
    want_permit(&s, &d, 1);
    cr_assert_eq(dlt_renew(&s, &d), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_inspect(&t, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 3);
    for (size_t i = 0; i < 3; i++) {
        static const uint32_t permits[] = {0, 2, 1};

        cr_assert_eq(holders[i].limit, 3);
        cr_assert_eq(holders[i].permit, permits[i]);
        cr_assert_null(strstr(holders[i].label, "permit"), "%s", holders[i].label);
    }
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    close_all();
}

Test(permits, LIM_1_waiters_get_permits_in_their_order)
{
    open_semaphore("order", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    queue(&u, &c);
    queue(&s, &d);
    cr_assert_eq(s.grant.queue_position, 1);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_BUSY, "the waiter before it has the right to it");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "waiters come first");
    cr_assert_eq(dlt_watch(&u, &c, 5000), DLOCK_BUSY, "%s", u.err.message);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(u.grant.permit, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_OK);
    cr_assert_eq(s.grant.permit, 0);
    close_all();
}

Test(permits, C21_a_waiter_that_may_choose_first_and_is_gone)
{
    open_semaphore("dead", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    queue(&u, &c);
    queue(&s, &d);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_BUSY, "two are free, and the first one has not chosen");
    dlt_session_close(&u);
    for (int i = 0; i < 1500 && refresh(&s, &d) == DLOCK_BUSY; i++)
        dlt_sleep_ms(10);
    cr_assert_eq(refresh(&s, &d), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.grant.permit, 0);
    cr_assert_eq(dlt_session_open(&u), DLOCK_OK);
    close_all();
}

Test(permits, LIM_1_one_number_for_all)
{
    open_semaphore("number", 3);
    want_permit(&s, &a, 0);
    b.req.limit = 30;
    c.req.limit = 1;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG);
    cr_assert_not_null(strstr(t.err.message, "limit of 3 now, and this user asks for 30;"), "%s",
                       t.err.message);
    for (uint32_t mode = DLOCK_EXCLUSIVE; mode <= DLOCK_SHARED; mode++) {
        c.req.mode = mode;
        cr_assert_eq(try_with(&u, &c, DLOCK_REQ_ENQUEUE), DLOCK_CONFIG);
        cr_assert_not_null(strstr(u.err.message, "limit of 3 now, and this user asks for 1;"), "%s",
                           u.err.message);
    }
    want_permit(&s, &d, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &d), DLOCK_OK);
    c.req.mode = DLOCK_EXCLUSIVE;
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_CONFIG);
    close_all();
}

/* A node of a lock behind a permit: of a program that knows no limits. */
Test(permits, C21_programs_that_know_no_limits_wait_and_keep_permits_out)
{
    open_semaphore("old", 2);
    want_permit(&s, &a, 0);
    (void)dlt_zk_ask(&server, "create -s %s/job/_c_old-__WRIT__", base);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "it is before us");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG, "it has the name now");
    close_all();
}
