/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_lease.c plugins/postgresql/statements.c */
/* An unlock that passes the name on, with the message in the same exchange: when, and who hears. */
#include "pgbouncer_server.h"
#include "row_listener.h"
#include "session.h"
#include "wait_fixture.h"

#include <libpq-fe.h>

#define APART    "SELECT pg_notify($1, $2)"
#define TOGETHER "SELECT pg_notify(split_part(w, ' ', 1)"
#define SEVERAL  "unnest(string_to_array($1"
#define PASSING  "(x.f).wake, '')"

static struct dlt_pgbouncer bouncer;

static void setup(void)
{
    cr_assert(dlt_postgres_start(&server, log_settings), "%s", server.why);
    open_at(server.address);
}

static void teardown(void)
{
    close_all();
    dlt_pgbouncer_stop(&bouncer);
    dlt_postgres_stop(&server);
}

TestSuite(pg_pass, .init = setup, .fini = teardown, .timeout = 120);

static struct pg_connection *connection(struct dlt_session *session)
{
    return &((struct pg_session *)session->self)->conn;
}

/* `one` gives the name to `two`, which hears of it and gives it back. */
static void hand_over(void)
{
    static bool listens;
    const uint64_t before = two.grant.fence;

    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    if (listens)
        queue(&two, &b);
    else
        queue_up(&two, &b);
    listens = true;
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(watch(&two, &b, 20000), DLOCK_OK, "%s", two.err.message);
    cr_assert_gt(two.grant.fence, before);
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK, "%s", two.err.message);
}

Test(pg_pass, NOTIFY_is_in_the_exchange_of_an_unlock_that_follows_one_that_passed)
{
    hand_over();
    cr_assert_eq(logged(&server, APART), 1);
    cr_assert_eq(logged(&server, PASSING), 0);
    for (int i = 0; i < 3; i++)
        hand_over();
    cr_assert_eq(logged(&server, APART), 1);
    cr_assert_eq(logged(&server, PASSING), 3);
    cr_assert_eq(logged(&server, TOGETHER), 3);
    cr_assert_eq(logged(&server, SEVERAL), 0);
}

/* The first unlock for which nobody waits ends it: the next ones are one statement again. */
Test(pg_pass, NOTIFY_is_left_out_when_nobody_waits_any_more)
{
    hand_over();
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
        cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
    }
    cr_assert_eq(logged(&server, PASSING), 1);
    cr_assert_eq(logged(&server, TOGETHER), 1);
    hand_over();
    cr_assert_eq(logged(&server, APART), 2);
}

static const char *heard(const char *sql)
{
    PGconn *pq = connection(&one)->pq;
    static char text[120];
    PGnotify *message = NULL;

    PQclear(PQexec(pq, sql));
    message = PQnotifies(pq);
    (void)snprintf(text, sizeof text, "%s", message != NULL ? message->extra : "nothing");
    PQfreemem(message);
    return text;
}

/* A message would wake all sessions of the database that listen. */
Test(pg_pass, NOTIFY_is_not_for_a_waiter_of_this_client)
{
    char text[80];

    cr_assert_eq(dlt_try(&two, &b), DLOCK_OK, "%s", two.err.message);
    queue_up(&also, &c);
    (void)snprintf(text, sizeof text, "LISTEN %s",
                   atomic_load(&((struct pg_session *)two.self)->shared->listener)->channel);
    cr_assert_str_eq(heard(text), "nothing");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK, "%s", two.err.message);
        cr_assert_eq(watch(&also, &c, 20000), DLOCK_OK, "%s", also.err.message);
        queue(&two, &b);
        cr_assert_eq(dlt_unlock(&also, &c), DLOCK_OK, "%s", also.err.message);
        cr_assert_eq(watch(&two, &b, 20000), DLOCK_OK, "%s", two.err.message);
        queue(&also, &c);
    }
    cr_assert_eq(logged(&server, PASSING), 4, "the sessions have passed the name on before");
    cr_assert_eq(logged(&server, TOGETHER), 4);
    cr_assert_str_eq(heard("SELECT 1"), "nothing");
    (void)dlt_postgres_ask(&server, "NOTIFY %s, 'it'", text + strlen("LISTEN "));
    cr_assert_str_eq(heard("SELECT 1"), "it");
}

/* Several waiters are granted at once: their messages are one statement, after the answer. */
Test(pg_pass, WAT_1_readers_are_each_told)
{
    struct watcher w = {.session = &two, .request = &b, .timeout_ms = 20000};
    struct watcher v = {.session = &also, .request = &c, .timeout_ms = 20000};

    hand_over();
    b.req.mode = c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    queue(&two, &b);
    queue(&also, &c);
    watcher_start(&w);
    watcher_start(&v);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(watcher_join(&w), DLOCK_OK, "%s", two.err.message);
    cr_assert_eq(watcher_join(&v), DLOCK_OK, "%s", also.err.message);
    cr_assert_eq(logged(&server, PASSING), 1);
    cr_assert_eq(logged(&server, SEVERAL), 1);
}

Test(pg_pass, UNL_1_the_server_has_forgotten_the_statements)
{
    static const char *const how[] = {"DEALLOCATE ALL", "DISCARD ALL"};

    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        PGresult *result = NULL;

        hand_over();
        hand_over();
        cr_assert(connection(&one)->passes);
        result = PQexec(connection(&one)->pq, how[i]);
        cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", how[i]);
        PQclear(result);
        cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
        result = PQexec(connection(&one)->pq, how[i]);
        PQclear(result);
        queue(&two, &b);
        cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s: %s", how[i], one.err.message);
        cr_assert_eq(watch(&two, &b, 20000), DLOCK_OK, "%s", two.err.message);
        cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
        hand_over();
    }
}

/* The unlock stays what it is. A token that holds nothing is LOST also here. */
Test(pg_pass, UNL_3_a_lease_that_is_not_there)
{
    hand_over();
    cr_assert(connection(&one)->passes);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_LOST, "%s", one.err.message);
    cr_assert_eq(logged(&server, PASSING), 1);
    hand_over();
}

static void run_on(struct dlt_session *session, const char *sql)
{
    PGresult *result = PQexec(connection(session)->pq, sql);

    cr_assert(PQresultStatus(result) == PGRES_COMMAND_OK ||
                  PQresultStatus(result) == PGRES_TUPLES_OK,
              "%s: %s", sql, PQresultErrorMessage(result));
    PQclear(result);
}

/* What the unlock before had to say was said. */
Test(pg_pass, NOTIFY_is_not_repeated_by_an_unlock_that_fails)
{
    char text[80];

    hand_over();
    hand_over();
    cr_assert(connection(&one)->passes);
    (void)snprintf(text, sizeof text, "LISTEN %s",
                   atomic_load(&((struct pg_session *)two.self)->shared->listener)->channel);
    cr_assert_str_eq(heard(text), "nothing");
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    queue(&two, &b);
    run_on(&also, "SET idle_in_transaction_session_timeout = 0");
    run_on(&also, "BEGIN");
    run_on(&also, "SELECT 1 FROM public.w_lease WHERE name = 'job' FOR UPDATE");
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_UNAVAILABLE, "%s", one.err.message);
    cr_assert_eq(logged(&server, TOGETHER), 2, "it ran in the same exchange");
    cr_assert_str_eq(heard("SELECT 1"), "nothing");
    run_on(&also, "ROLLBACK");
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(logged(&server, TOGETHER), 3);
    cr_assert_str_neq(heard("SELECT 1"), "nothing");
    cr_assert_eq(watch(&two, &b, 20000), DLOCK_OK, "%s", two.err.message);
}

/* A setting would stay with a session that another client gets next. */
Test(pg_pass, never_behind_a_pooler)
{
    static const char *const modes[] = {"transaction", "session"};

    for (int i = 0; i < 2; i++) {
        char where[32];

        close_all();
        cr_assert(dlt_pgbouncer_start(&bouncer, &server, modes[i], NULL), "%s", bouncer.why);
        (void)snprintf(where, sizeof where, "127.0.0.1:%u", bouncer.port);
        target_set(&one, where);
        cr_assert_eq(dlt_session_open(&one), DLOCK_OK, "%s", one.err.message);
        target_set(&two, server.address);
        cr_assert_eq(dlt_session_open(&two), DLOCK_OK, "%s", two.err.message);
        dlt_request(&one, &a, modes[i], 'a', 60000);
        dlt_request(&two, &b, modes[i], 'b', 60000);
        cr_assert(connection(&one)->pooled);
        cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
        queue_up(&two, &b);
        for (int round = 0; round < 3; round++) {
            cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
            cr_assert_eq(watch(&two, &b, 20000), DLOCK_OK, "%s", two.err.message);
            cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK, "%s", two.err.message);
            cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
            queue(&two, &b);
        }
        cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
        cr_assert_eq(watch(&two, &b, 20000), DLOCK_OK, "%s", two.err.message);
        forget(&one, &a);
        forget(&two, &b);
        dlt_session_close(&one);
        dlt_session_close(&two);
        dlt_pgbouncer_stop(&bouncer);
    }
    cr_assert_eq(logged(&server, "dlock.wake"), 0);
    open_at(server.address);
}
