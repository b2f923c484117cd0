/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_lease.c plugins/postgresql/statements.c */
/* The rows of the queue of strategy row: what ends takes them along. */
#include "row_kit.h"

static struct dlt_request d, e;

static void open_queue(const char *test)
{
    open_all(test);
    dlt_request(&s, &d, "job", 'd', 60000);
    dlt_request(&s, &e, "job", 'e', 60000);
}

static void shared(struct dlt_request *request)
{
    request->req.mode = DLOCK_SHARED;
}

Test(queue, UNL_1_a_lease_that_has_ended_is_lost_and_the_name_goes_to_the_first)
{
    open_queue("late");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    administer("UPDATE row_late_lease SET until = clock_timestamp() - interval '1 s'");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    close_all();
}

Test(queue, DEQ_3_an_entry_ends_by_itself_and_the_dead_are_passed_over)
{
    open_queue("dead");
    dlt_session_close(&t);
    dlt_session_option(&t, "waiter_lease", "500");
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b); /* dies */
    queue(&u, &c);
    queue(&t, &d); /* dies */
    dlt_sleep_ms(600);
    cr_assert_eq(refresh(&t, &d), DLOCK_LOST, "it has ended");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "the dead one before it is passed over");
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_str_eq(dlt_postgres_ask(&server, "SELECT count(*) FROM row_dead_queue"), "0");
    cr_assert_eq(dlt_try(&s, &e), DLOCK_OK);
    close_all();
}

Test(queue, C13_readers_that_died_let_the_writer_in)
{
    open_queue("gone");
    dlt_session_close(&u);
    dlt_session_option(&u, "waiter_lease", "10000"); /* longer than the readers live */
    cr_assert_eq(dlt_session_open(&u), DLOCK_OK);
    shared(&a);
    shared(&b);
    a.req.ttl_ms = 2500;
    b.req.ttl_ms = 3500;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    queue(&u, &c);
    cr_assert_leq(u.grant.holder_ms, 3500);
    cr_assert_gt(u.grant.holder_ms, 100);
    dlt_sleep_ms(3550);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    cr_assert_str_eq(dlt_postgres_ask(&server, "SELECT count(*) FROM row_gone_reader"), "0");
    close_all();
}
