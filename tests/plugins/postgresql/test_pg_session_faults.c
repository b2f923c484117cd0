/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/session_lock.c */
/* Does strategy=session keep its word when servers stop, sessions end and tables change? */
#include "proxy_client.h"
#include "session_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

/* A test with a server of its own. */
#define CASE(name)          \
    static void name(void); \
    Test(session, name)     \
    {                       \
        begin_alone();      \
        name();             \
        end();              \
    }                       \
    static void name(void)

static void begin_alone(void)
{
    cr_assert(dlt_postgres_start(&server, NULL), "%s", server.why);
    target(&s, "f_");
    open_all();
}

/* Each answer comes late: the login takes longer than each of the calls. */
CASE(OPN_7_calls_with_less_time_than_a_login_finish_it)
{
    enum dlock_status status = DLOCK_UNAVAILABLE;
    struct dlt_proxy proxy;
    int calls = 0;

    cr_assert(dlt_proxy_start(&proxy, server.address, "postgresql", NULL), "%s", proxy.answer);
    cr_assert(dlt_proxy_tell(&proxy, "delay s2c 30"), "%s", proxy.answer);
    dlt_session_close(&u);
    target(&u, "f_");
    (void)snprintf(u.address, sizeof u.address, "%s", proxy.address);
    u.shared = &s.host;
    u.self = calloc(1, u.ops->session_size);
    for (; status != DLOCK_OK && calls < 500; calls++) {
        u.info = (struct dlock_session_info){.struct_size = sizeof u.info};
        status = u.ops->open(u.self, &s.host.table, &u.target, dlt_host_in(&s.host, 40), &u.info,
                             &u.err);
        if (status == DLOCK_OK || u.info.can_resume)
            continue;
        u.ops->close(u.self, false);
        memset(u.self, 0, u.ops->session_size);
    }
    cr_assert_eq(status, DLOCK_OK, "%s", u.err.message);
    cr_assert_gt(calls, 1);
    cr_assert(dlt_proxy_tell(&proxy, "pass"), "%s", proxy.answer);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    dlt_session_close(&u);
    (void)dlt_proxy_stop(&proxy);
}

/* As an administrator does. */
static void terminate_all(void)
{
    (void)dlt_postgres_ask(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                    " WHERE usename = 'u'");
    await("SELECT count(*) FROM pg_stat_activity WHERE usename = 'u'", "0");
}

CASE(C9_SES_1_a_holder_whose_session_was_terminated)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    fence = s.grant.fence;
    terminate_all();
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    reopen(&t);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_gt(t.grant.fence, fence + 31);
}

/* The word of the server comes as the answer to the request. */
CASE(C5_an_unlock_finds_the_end_of_the_session)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    terminate_all();
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
}

/* The number is ahead of the clock, so that only the disk knows it. */
CASE(C6_a_crash_ends_the_lock_and_the_fence_was_on_the_disk)
{
    uint64_t fence = 0;

    (void)dlt_postgres_ask(&server, "ALTER ROLE u SET synchronous_commit = off");
    reopen(&s);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)dlt_postgres_ask(&server, "UPDATE f_session SET fence = fence + 1000000000000");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    fence = s.grant.fence;
    dlt_postgres_kill(&server);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert(dlt_postgres_again(&server), "%s", server.why);
    reopen(&t);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(t.grant.fence, fence + 32);
}

/* The server has the lock still: it stopped for less than the lease. */
CASE(C8_C14_REN_4_a_ping_that_is_answered_late_ends_nothing)
{
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_postgres_pause(&server, true);
    begin_ns = dlt_host_now(&s.host);
    s.call_ms = 300;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNKNOWN, "the same ping: %s", s.err.message);
    cr_assert(dlt_within(begin_ns, 10000), "%s", dlt_within_text());
    dlt_postgres_pause(&server, false);
    s.call_ms = 5000;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "the connection lives: %s", s.err.message);
}

/* An unlock behind a ping reads the old answer first, and sends nothing without it. */
CASE(C8_UNL_2_an_unlock_after_a_ping_without_an_answer)
{
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        dlt_postgres_pause(&server, true);
        s.call_ms = 300;
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
        if (i == 0)
            dlt_postgres_pause(&server, false);
        s.call_ms = i == 0 ? 5000 : 300;
        cr_assert_eq(dlt_unlock(&s, &a), i == 0 ? DLOCK_OK : DLOCK_UNAVAILABLE, "%s",
                     s.err.message);
        s.call_ms = 5000;
    }
    dlt_session_close(&s); /* the clean-up [SES-2] */
    dlt_postgres_pause(&server, false);
    await_locks("f_", "granted", "0");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
}

CASE(C9_a_server_that_dies_before_it_answers_a_ping)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_postgres_pause(&server, true);
    s.call_ms = 300;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
    dlt_postgres_kill(&server);
    s.call_ms = 5000;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
}

/* The deadline of the wait limits the exchange before it, too. */
CASE(C8_LCK_2_a_wait_at_a_server_that_says_nothing)
{
    int64_t begin_ns = 0;

    dlt_postgres_pause(&server, true);
    begin_ns = dlt_host_now(&s.host);
    b.req.op_timeout_ms = 20000;
    cr_assert_eq(dlt_lock(&t, &b, 200), DLOCK_UNKNOWN, "%s", t.err.message);
    cr_assert(dlt_within(begin_ns, 10000), "%s", dlt_within_text());
    dlt_postgres_pause(&server, false);
}

/* The server stops in the wait and cannot end it. What is left ends by itself. */
CASE(C8_LCK_1_a_server_that_stops_during_the_wait)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 1500};
    int64_t begin_ns = dlt_host_now(&s.host);

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("f_", "1");
    dlt_postgres_pause(&server, true);
    cr_assert_eq(waiter_join(&w), DLOCK_TIMEOUT, "%s", t.err.message);
    cr_assert_geq(ms_since(begin_ns), 1500);
    cr_assert(dlt_within(begin_ns, 6000), "%s", dlt_within_text());
    dlt_postgres_pause(&server, false);
    await_waiters("f_", "0");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    await_locks("f_", "granted", "0");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
}

CASE(INT_1_an_interrupt_of_a_wait_at_a_stopped_server)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 60000};
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("f_", "1");
    dlt_postgres_pause(&server, true);
    begin_ns = dlt_host_now(&s.host);
    dlt_interrupt(&t, &b);
    cr_assert(dlt_within(begin_ns, 5000), "%s", dlt_within_text());
    cr_assert_eq(waiter_join(&w), DLOCK_CANCELED, "%s", t.err.message);
    cr_assert(dlt_within(begin_ns, 10000), "%s", dlt_within_text());
    dlt_postgres_pause(&server, false);
    await_waiters("f_", "0");
}

CASE(LCK_1_a_waiter_whose_session_was_terminated_holds_nothing)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 60000};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("f_", "1");
    (void)dlt_postgres_ask(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                    " WHERE usename = 'u' AND wait_event_type = 'Lock'");
    (void)waiter_join(&w);
    cr_assert(w.status == DLOCK_UNKNOWN || w.status == DLOCK_UNAVAILABLE, "%d: %s", (int)w.status,
              t.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
}

/* C10, CLS-1 */
CASE(CLS_1_a_forked_child_leaves_the_lock_alone)
{
    int wait_status = -1;
    pid_t child = -1;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    child = fork();
    if (child == 0) {
        s.ops->close(s.self, true);
        _exit(0);
    }
    (void)waitpid(child, &wait_status, 0);
    cr_assert_eq(wait_status, 0);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* ---- tables ---- */

CASE(C6_rows_that_are_deleted_under_a_holder)
{
    uint64_t fence = 0;

    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        fence = s.grant.fence;
        (void)dlt_postgres_ask(&server, i == 0 ? "DELETE FROM f_session" : "TRUNCATE f_session");
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "the number is the same: %s", t.err.message);
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
        cr_assert_gt(t.grant.fence, fence + 31);
        cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    }
}

CASE(C11_a_row_that_is_deleted_under_a_waiter)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 20000};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("f_", "1");
    (void)dlt_postgres_ask(&server, "DELETE FROM f_session");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(waiter_join(&w), DLOCK_UNAVAILABLE, "%s", t.err.message);
    cr_assert(strstr(t.err.message, "removed") != NULL, "%s", t.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "it keeps nothing: %s", u.err.message);
}

static void *row_keep(void *arg)
{
    (void)arg;
    (void)dlt_postgres_ask(&server, "BEGIN; SELECT 1 FROM f_session FOR UPDATE;"
                                    " SELECT pg_sleep(1.5); COMMIT");
    return NULL;
}

/* The advisory lock is there, and the fence is not yet: the caller must not hold. */
CASE(C6_a_session_that_dies_before_its_fence_is_committed)
{
    pthread_t thread;
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    fence = s.grant.fence;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(pthread_create(&thread, NULL, row_keep, NULL), 0);
    await("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FOR UPDATE%'"
          " AND wait_event = 'PgSleep'",
          "1");
    t.call_ms = 300;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNKNOWN, "%s", t.err.message);
    dlt_session_close(&t);
    (void)pthread_join(thread, NULL);
    await_locks("f_", "granted", "0");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_gt(u.grant.fence, fence + 31);
}

/* [LCK-1] The advisory lock is not undone with the statement that took it. */
CASE(TRY_4_an_error_after_the_advisory_lock_leaves_nothing)
{
    struct waiter w = {.session = &u, .request = &c, .timeout_ms = 20000};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("f_", "1");
    (void)dlt_postgres_ask(&server, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
                                    " $$BEGIN RAISE disk_full; END$$");
    (void)dlt_postgres_ask(&server, "CREATE TRIGGER refuse BEFORE UPDATE ON f_session"
                                    " EXECUTE FUNCTION refuse()");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(waiter_join(&w), DLOCK_UNAVAILABLE, "%s", u.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "%s", t.err.message);
    await_locks("f_", "true", "0");
    (void)dlt_postgres_ask(&server, "DROP TRIGGER refuse ON f_session");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* What administrators set for roles, and what would end a wait or a holder. */
CASE(settings_of_the_role_do_not_count)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 700};
    int64_t begin_ns = 0;

    (void)dlt_postgres_ask(&server, "ALTER ROLE u SET statement_timeout = '100ms'");
    (void)dlt_postgres_ask(&server, "ALTER ROLE u SET lock_timeout = '100ms'");
    (void)dlt_postgres_ask(&server, "ALTER ROLE u SET idle_session_timeout = '200ms'");
    (void)dlt_postgres_ask(&server, "ALTER ROLE u SET synchronous_commit = off");
    (void)dlt_postgres_ask(&server,
                           "ALTER ROLE u SET default_transaction_isolation = serializable");
    reopen(&s);
    reopen(&t);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    begin_ns = dlt_host_now(&s.host);
    waiter_start(&w);
    cr_assert_eq(waiter_join(&w), DLOCK_TIMEOUT, "%s", t.err.message);
    cr_assert_geq(ms_since(begin_ns), 700);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}
