/* SPDX-License-Identifier: MIT */
/* Bad days of the server and of the way to it: what each call says, and that nothing is held twice.
 */
#include "fault_fixture.h"

LEASED(C4_C9_a_connection_that_was_killed)
{
    enum dlock_status status = DLOCK_INTERNAL;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    kill_all();
    status = dlt_try(&t, &b);
    cr_assert(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE, "%d", (int)status);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "it is not used again");
    status = dlt_renew(&s, &a);
    cr_assert(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE, "%d", (int)status);
    reopen(&s);
    reopen(&t);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "the lease is in the row");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}

/* FRESH: the server's end is seen before anything is sent. */
LEASED(TRY_4_what_ended_while_nobody_asked_is_UNAVAILABLE)
{
    kill_all();
    dlt_sleep_ms(600);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_UNAVAILABLE, "%s", t.err.message);
}

LEASED(TRY_4_a_stopped_server_is_UNKNOWN_by_the_deadline)
{
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    dlt_maria_pause(&server, true);
    begin_ns = dlt_host_now(&s.host);
    s.call_ms = t.call_ms = 300;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
    cr_assert_lt(ms_since(begin_ns), 2000);
    dlt_maria_pause(&server, false);
    s.call_ms = 5000;
    reopen(&s);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "the same token: %s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}

LEASED(C16_the_lease_outlives_a_crash_of_the_server)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    dlt_maria_kill(&server);
    cr_assert(dlt_maria_again(&server), "%s", server.why);
    reopen(&s);
    reopen(&t);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_gt(t.grant.fence, fence + 31);
}

static void *row_hold(void *arg)
{
    (void)arg;
    (void)dlt_maria_ask(&server, "BEGIN; UPDATE f_names SET label = 'x'; DO SLEEP(2); ROLLBACK");
    return NULL;
}

static void *row_hold_start(pthread_t *thread)
{
    cr_assert_eq(pthread_create(thread, NULL, row_hold, NULL), 0);
    dlt_sleep_ms(400);
    return NULL;
}

/* 1205: BUSY or UNAVAILABLE, never LOST. */
LEASED(C4_somebody_sits_on_the_row)
{
    pthread_t thread;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)row_hold_start(&thread);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_eq(s.err.backend_code, 1205);
    (void)pthread_join(thread, NULL);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)row_hold_start(&thread);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    (void)pthread_join(thread, NULL);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

LEASED(REN_2_a_row_that_was_removed)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    cr_assert_str_eq(dlt_maria_ask(&server, "DELETE FROM f_names"), "");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_gt(t.grant.fence, fence, "the clock goes on");
}

LEASED(a_table_that_was_dropped_is_CONFIG)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server, "DROP TABLE f_names"), "");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG, "%s", t.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_CONFIG, "%s", s.err.message);
    dlt_session_close(&t);
    cr_assert_eq(dlt_session_open(&t), DLOCK_CONFIG, "the tables of before are not made again");
}

LEASED(OPN_1_a_read_only_server)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server, "SET GLOBAL read_only = 1"), "");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    dlt_session_close(&t);
    cr_assert_eq(dlt_session_open(&t), DLOCK_CONFIG);
    cr_assert(strstr(t.err.message, "read-only") != NULL, "%s", t.err.message);
}

LEASED(OPN_3_no_connection_left)
{
    struct dlt_session many[12];
    enum dlock_status status = DLOCK_OK;
    int count = 0;

    while (count < 12 && status == DLOCK_OK)
        status = dlt_session_join(&many[count++], &s);
    cr_assert_eq(status, DLOCK_UNAVAILABLE, "%s", many[count - 1].err.message);
    cr_assert_eq(many[count - 1].err.backend_code, 1040, "%s", many[count - 1].err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "those that are there go on");
    for (int i = 0; i < count; i++)
        dlt_session_close(&many[i]);
}

LEASED(time_zones_do_not_matter)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server, "SET GLOBAL time_zone = '+09:00'"), "");
    reopen(&t);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_gt(t.grant.holder_ms, 50000);
    cr_assert_leq(t.grant.holder_ms, 60000);
    cr_assert_eq(dlt_renew(&t, &a), DLOCK_OK);
}

static unsigned long long counter(const char *name)
{
    const char *text = dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE '%s'", name);

    return strtoull(text + strcspn(text, " "), NULL, 10);
}

LEASED(the_cost_of_a_lock_does_not_grow_with_old_names)
{
    unsigned long long rows = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "INSERT INTO f_readers (name, token, since_us, until_us,"
                                   " label) SELECT CONCAT('old ', seq), 'x', 0, 0, ''"
                                   " FROM seq_1_to_100000"),
                     "");
    cr_assert_str_eq(
        dlt_maria_ask(&server, "%s",
                      strcmp(s.options[1][1], "row") == 0
                          ? "INSERT INTO f_names SELECT CONCAT('old ', seq), 1, '', 0, 0,"
                            " 0, '', '', 0 FROM seq_1_to_100000"
                          : "INSERT INTO f_fences SELECT CONCAT('old ', seq), 1, '', 0"
                            " FROM seq_1_to_100000"),
        "");
    rows = counter("Handler_read_rnd_next") + counter("Handler_read_next");
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        dlt_request_shared(&t, &c, "job", 'c', 60000);
        cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    }
    rows = counter("Handler_read_rnd_next") + counter("Handler_read_next") - rows;
    cr_assert_lt(rows, 20000, "%llu rows were read", rows);
}

LEASED(renewals_of_many_are_one_statement)
{
    enum { MANY = 50 };
    struct dlt_request many[MANY];
    struct dlock_lease_op ops[MANY];
    char names[MANY][16];
    unsigned long long before = 0;

    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "job %zu", i);
        dlt_request(&s, &many[i], names[i], (unsigned char)i, 60000);
        cr_assert_eq(dlt_try(&s, &many[i]), DLOCK_OK);
        ops[i] = (struct dlock_lease_op){.req = &many[i].req, .status = DLOCK_INTERNAL};
    }
    before = counter("Com_update") + counter("Com_stmt_execute");
    cr_assert_eq(s.ops->renew(s.self, ops, MANY, dlt_host_in(&s.host, 5000), &s.err), DLOCK_OK);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(ops[i].status, DLOCK_OK);
    cr_assert_eq(counter("Com_update") + counter("Com_stmt_execute"), before);
    cr_assert_eq(counter("Com_update_multi"), 1);
}
