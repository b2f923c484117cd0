/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/session_lock.c */
/* What happens to strategy session when the server's wall clock steps? The lock needs no clock; the
 * server times silent holders, and waits, by that clock. */
#include "session_fixture.h"
#include "skewed_server.h"

static struct dlt_skewed skewed;

static void set_up(void)
{
    dlt_skewed_start(&skewed, dlt_store_postgres(&server));
    target(&s, "clock_");
    dlt_session_option(&s, "session_grace", "60000");
    open_all();
}

static void tear_down(void)
{
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_skewed_stop(&skewed);
}

TestSuite(clock, .init = set_up, .fini = tear_down, .timeout = 120);

/* A step of the clock. After each statement the server has an alarm for another 100 ms (it looks
 * whether the client is there): if that comes behind a step forward, a silent holder looks silent
 * for an hour. */
static void hours(int count)
{
    dlt_sleep_ms(400);
    dlt_skewed_step(&skewed, count * DLT_HOUR_NS);
}

/* The lock stays with its holder, and the next one has a greater fence, however the clock steps. */
static void steps(uint32_t mode)
{
    static const int by[] = {1, -2, 3, -5};
    uint64_t last = 0;

    for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
        a.req.mode = mode;
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        if (mode == DLOCK_EXCLUSIVE)
            cr_assert_gt(s.grant.fence, last);
        hours(by[i]);
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%d h: %s", by[i], t.err.message);
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%d h: %s", by[i], s.err.message);
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%d h: %s", by[i], t.err.message);
        last = s.grant.fence;
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%d h: %s", by[i], s.err.message);
        cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%d h: %s", by[i], t.err.message);
        cr_assert_gt(t.grant.fence, last, "C6, after %d h", by[i]);
        last = t.grant.fence + t.grant.fence_room;
        cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%d h: %s", by[i], t.err.message);
    }
}

Test(clock, C1_C6_a_step_moves_no_lock_of_a_writer)
{
    steps(DLOCK_EXCLUSIVE);
}

Test(clock, C1_C6_a_step_moves_no_lock_of_a_reader)
{
    steps(DLOCK_SHARED);
}

/* Its session may end at the step: the holder learns that, and the next one has a greater fence. */
Test(clock, C1_C2_C6_a_step_forward_behind_a_statement)
{
    uint64_t last = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    for (int i = 0; i < 5; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_gt(s.grant.fence, last);
        last = s.grant.fence + s.grant.fence_room;
        dlt_skewed_step(&skewed, DLT_HOUR_NS);
        dlt_sleep_ms(300);
        status = dlt_renew(&s, &a);
        cr_assert(status == DLOCK_OK || status == DLOCK_LOST, "%s", s.err.message);
        cr_assert_eq(dlt_try(&t, &b), status == DLOCK_OK ? DLOCK_BUSY : DLOCK_OK, "%s",
                     t.err.message);
        cr_assert_eq(dlt_unlock(&s, &a), status, "%s", s.err.message);
        if (status == DLOCK_LOST) {
            cr_assert_gt(t.grant.fence, last);
            last = t.grant.fence + t.grant.fence_room;
            cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
            reopen(&s);
        }
    }
}

/* The server does not see that the time is over. It still ends a session when it is told to. */
Test(clock, a_step_back_keeps_a_silent_holder_and_the_end_of_its_session_helps)
{
    a.req.ttl_ms = 2000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    hours(-1);
    dlt_sleep_ms(4000);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    (void)dlt_postgres_ask(&server,
                           "SELECT pg_terminate_backend(l.pid) FROM clock_session k JOIN pg_locks l"
                           " ON k.number = (l.classid::bigint << 32) | l.objid::bigint"
                           " WHERE l.locktype = 'advisory' AND l.granted");
    await_locks("clock_", "granted", "0");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
}

/* The client's own clock ends the wait, and nothing is left that gets the lock for long. */
Test(clock, C8_LCK_1_a_step_back_under_a_waiter)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 1500};
    const int64_t begin_ns = dlt_host_now(&s.host);

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("clock_", "1");
    hours(-1);
    cr_assert_eq(waiter_join(&w), DLOCK_TIMEOUT, "%s", t.err.message);
    cr_assert_geq(ms_since(begin_ns), 1500);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    await_locks("clock_", "granted", "0");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
}

/* The server ends the wait early. The waiter has time left, asks again, and gets the lock. */
Test(clock, LCK_1_a_step_forward_under_a_waiter)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 60000};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("clock_", "1");
    hours(1);
    dlt_sleep_ms(1000);
    await_waiters("clock_", "1");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(waiter_join(&w), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY, "%s", u.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
}
