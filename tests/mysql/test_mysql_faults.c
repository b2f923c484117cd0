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

    for (int i = 0; i < 2; i++) { /* what is only prepared then is no risk */
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    }
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
    (void)dlt_maria_ask(&server, "BEGIN; UPDATE f_names SET label = 'x'; DO SLEEP(60); ROLLBACK");
    return NULL;
}

/* Returns when the row is held: the number of the connection that does. */
static const char *row_hold_start(pthread_t *thread)
{
    const char *id = "";

    cr_assert_eq(pthread_create(thread, NULL, row_hold, NULL), 0);
    for (int i = 0; i < 1000 && id[0] == '\0'; i++) {
        dlt_sleep_ms(10);
        id = dlt_maria_ask(&server, "SELECT COALESCE(MAX(id), '') FROM"
                                    " information_schema.processlist WHERE state = 'User sleep'");
    }
    cr_assert_str_neq(id, "");
    return id;
}

static void row_hold_end(pthread_t thread, const char *id)
{
    char order[32];

    (void)snprintf(order, sizeof order, "KILL %s", id);
    cr_assert_str_eq(dlt_maria_ask(&server, "%s", order), "");
    (void)pthread_join(thread, NULL);
}

/* 1205: BUSY or UNAVAILABLE, never LOST. */
LEASED(C4_somebody_sits_on_the_row)
{
    char id[32];
    pthread_t thread;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread));
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_eq(s.err.backend_code, 1205);
    row_hold_end(thread, id);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread));
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    row_hold_end(thread, id);
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
