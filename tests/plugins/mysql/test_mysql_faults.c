/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/connection.c plugins/mysql/query.c */
/* Tests: plugins/mysql/shared.c */
/* Bad days of the server and of the way to it: what each call says, and that nothing is held twice.
 */
#include "connection.h"
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
    cr_assert(dlt_within(begin_ns, 20000), "%s", dlt_within_text());
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

/* 1205: BUSY or UNAVAILABLE, never LOST. */
LEASED(C4_somebody_sits_on_the_row)
{
    char id[32];
    pthread_t thread;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "job"));
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_eq(s.err.code, 1205);
    row_hold_end(thread, id);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "job"));
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    row_hold_end(thread, id);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* Somebody sits on the number of a name: the others of the client do not wait for it. */
Test(session, C4_somebody_sits_on_the_fence_of_another_name)
{
    struct waiter w = {.session = &s, .request = &a, .timeout_ms = 4000, .native = 1};
    char id[32];
    pthread_t thread;

    begin("session");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    row_hold_table = "fences";
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "job"));
    waiter_start(&w);
    await_state("UPDATE%", 1);
    dlt_request(&u, &c, "other", 'c', 60000);
    u.call_ms = 2000;
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    row_hold_end(thread, id);
    cr_assert_eq(waiter_join(&w), DLOCK_OK, "%s", s.err.message);
    end();
}

/* Leases on "0", "1", ... of one session. */
#define MANY 70 /* more than one statement extends */
static struct dlt_request leases[MANY];
static struct dlock_lease_op ops[MANY];
static char names[MANY][24];

static void many_take(size_t n, size_t reader)
{
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof names[i], "%zu", i);
        dlt_request(&s, &leases[i], names[i], (unsigned char)(i + 1), 60000);
        leases[i].req.mode = i == reader ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        cr_assert_eq(dlt_try(&s, &leases[i]), DLOCK_OK, "%s", s.err.message);
        leases[i].req.ttl_ms = 90000;
    }
}

/* For as long as the renewer gives an exchange. */
static void many_renew(size_t n)
{
    for (size_t i = 0; i < n; i++)
        ops[i] = (struct dlock_lease_op){.req = &leases[i].req, .status = DLOCK_INTERNAL};
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, n, dlt_host_in(&s.host, 2000), &s.err),
                 DLOCK_OK);
}

/* The others are renewed; `held` is not. */
static void many_but(size_t n, size_t held)
{
    many_renew(n);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(ops[i].status, i == held ? DLOCK_UNAVAILABLE : DLOCK_OK, "%zu: %s: %s", i,
                     dlock_status_name((int)ops[i].status), s.err.message);
}

LEASED(REN_1_C14_somebody_sits_on_the_row_of_another_name)
{
    char id[32];
    pthread_t thread;

    many_take(MANY, 5);
    for (size_t held = 0; held <= 5; held += 5) { /* an exclusive lease, then the shared one */
        (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, names[held]));
        many_but(MANY, held);
        row_hold_end(thread, id);
        many_but(MANY, MANY);
    }
}

/* The server is patient with each for a second: the deadline comes while it waits for them. */
LEASED(REN_1_somebody_sits_on_three_rows_and_the_others_are_renewed_first)
{
    char id[32];
    pthread_t thread;

    many_take(MANY, MANY);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "0','1','2"));
    many_renew(MANY);
    for (size_t i = 0; i < MANY; i++)
        cr_assert(i < 3 ? ops[i].status == DLOCK_UNAVAILABLE || ops[i].status == DLOCK_UNKNOWN
                        : ops[i].status == DLOCK_OK,
                  "%zu: %s: %s", i, dlock_status_name((int)ops[i].status), s.err.message);
    row_hold_end(thread, id);
}

/* ... nor does one of a name that is not ours at all. */
LEASED(REN_1_somebody_sits_on_a_row_that_is_not_ours)
{
    char id[32];
    pthread_t thread;

    many_take(3, MANY);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "job"));
    many_but(3, MANY);
    row_hold_end(thread, id);
}

static unsigned long long questions(void)
{
    const char *text = dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE 'Questions'");

    return strtoull(text + strcspn(text, " "), NULL, 10);
}

/* The batch has extended the others: they are not asked for one by one. */
LEASED(REN_1_a_lease_that_is_lost_costs_the_others_nothing)
{
    unsigned long long before = 0;

    many_take(MANY, MANY);
    cr_assert_eq(dlt_unlock(&s, &leases[9]), DLOCK_OK, "%s", s.err.message);
    before = questions();
    many_renew(MANY);
    cr_assert_lt(questions() - before, 10);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(ops[i].status, i == 9 ? DLOCK_LOST : DLOCK_OK, "%zu: %s", i,
                     dlock_status_name((int)ops[i].status));
}

/* The next change of the lock's row is answered with this error. */
static void refuse_with(int code)
{
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "CREATE OR REPLACE TRIGGER t BEFORE UPDATE ON f_names FOR EACH "
                                   "ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d",
                                   code),
                     "");
}

/* TRY-4: an error that may come after the engine has committed, and one that we do not know, leave
 * it open whether the statement took effect; of others it is known. */
LEASED(TRY_4_C4_an_error_that_may_come_after_the_commit)
{
    static const int open[] = {1180, 1026, 1030, 3100, 9999}, definite[] = {1114, 1290, 1317, 1213};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        refuse_with(open[i]);
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNKNOWN, "%d: %s", open[i], s.err.message);
    }
    for (size_t i = 0; i < sizeof definite / sizeof definite[0]; i++) {
        refuse_with(definite[i]);
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE, "%d: %s", definite[i], s.err.message);
    }
    cr_assert_str_eq(dlt_maria_ask(&server, "DROP TRIGGER t"), "");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* TRY-4: libmariadb's 2008 does not say whether the request had been sent. */
Test(errmap, TRY_4_a_client_without_memory)
{
    cr_assert_eq(my_connection_error_status(2008, false), DLOCK_UNKNOWN);
    cr_assert_eq(my_connection_error_status(2008, true), DLOCK_NOMEM);
    cr_assert(my_connection_is_fatal(2008));
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
    cr_assert_eq(many[count - 1].err.code, 1040, "%s", many[count - 1].err.message);
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
