/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/pooler.c */
/* Is a pooler found, and told apart by what it does to sessions? */
#include "pgbouncer_server.h"
#include "pooler.h"
#include "session.h"
#include "wait_fixture.h"

#include <libpq-fe.h>

static struct dlt_pgbouncer bouncer;

static void setup(void)
{
    cr_assert(dlt_postgres_start(&server, log_settings), "%s", server.why);
}

static void teardown(void)
{
    dlt_session_close(&two);
    dlt_session_close(&one);
    dlt_pgbouncer_stop(&bouncer);
    dlt_postgres_stop(&server);
}

TestSuite(pg_pooler, .init = setup, .fini = teardown, .timeout = 120);

static void pooled(const char *mode, const char *settings)
{
    char where[32];

    cr_assert(dlt_pgbouncer_start(&bouncer, &server, mode, settings), "%s", bouncer.why);
    (void)snprintf(where, sizeof where, "127.0.0.1:%u", bouncer.port);
    target_set(&one, where);
    /* The pooler may count the connection still that the kit has closed. */
    for (int i = 0; i < 50 && dlt_session_open(&one) != DLOCK_OK; i++) {
        dlt_session_close(&one);
        dlt_sleep_ms(20);
    }
    cr_assert_not_null(one.self, "%s", one.err.message);
}

static enum pg_pooler found(void)
{
    struct pg_session *session = one.self;
    enum pg_pooler pooler = PG_POOLER_UNKNOWN;
    enum dlock_status status =
        pg_pooler_find(&session->conn, dlt_host_in(&one.host, 5000), &pooler, &one.err);

    cr_assert_eq(status, DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(atomic_load(&session->shared->pooler), (int)pooler);
    return pooler;
}

static bool is_pooled(void)
{
    return ((struct pg_session *)one.self)->conn.pooled;
}

/* libpq sends it whatever we say. */
Test(pg_pooler, OPN_3_a_variable_that_a_pooler_refuses_is_named)
{
    cr_assert(dlt_pgbouncer_start(&bouncer, &server, "transaction", NULL), "%s", bouncer.why);
    target_set(&one, "");
    (void)snprintf(one.address, sizeof one.address, "127.0.0.1:%u", bouncer.port);
    (void)setenv("PGGEQO", "on", 1);
    cr_assert_eq(dlt_session_open(&one), DLOCK_CONFIG, "%s", one.err.message);
    cr_assert_not_null(strstr(one.err.message, "PGGEQO"), "%s", one.err.message);
    (void)unsetenv("PGGEQO");
    cr_assert_eq(dlt_session_open(&one), DLOCK_OK, "%s", one.err.message);
}

Test(pg_pooler, a_server_without_a_pooler)
{
    target_set(&one, server.address);
    cr_assert_eq(dlt_session_open(&one), DLOCK_OK, "%s", one.err.message);
    cr_assert_not(is_pooled());
    cr_assert_eq(found(), PG_POOLER_NONE);
    cr_assert_eq(logged(&server, "LISTEN"), 0);
}

Test(pg_pooler, a_pooler_of_sessions)
{
    pooled("session", NULL);
    cr_assert(is_pooled());
    cr_assert_eq(found(), PG_POOLER_SESSION);
}

Test(pg_pooler, a_pooler_of_transactions_lends_one_session_to_both)
{
    pooled("transaction", NULL);
    cr_assert(is_pooled());
    cr_assert_eq(found(), PG_POOLER_TRANSACTION);
    cr_assert_eq(logged(&server, "LISTEN"), 0, "no session of the pooler is left listening");
}

/* Opens a transaction, so that the pooler needs one session of the server more. */
static PGconn *transaction(void)
{
    char text[160];
    PGconn *pq = NULL;

    (void)snprintf(text, sizeof text, "host=127.0.0.1 port=%u user=u password=secret dbname=locks",
                   bouncer.port);
    pq = PQconnectdb(text);
    PQclear(PQexec(pq, "BEGIN"));
    PQclear(PQexec(pq, "SELECT 1"));
    cr_assert_eq(PQtransactionStatus(pq), PQTRANS_INTRANS, "%s", PQerrorMessage(pq));
    return pq;
}

/* The two connections get different sessions, and the message has to say it. */
Test(pg_pooler, a_pooler_of_transactions_with_many_sessions)
{
    PGconn *others[3];
    int64_t start_ns = 0;

    pooled("transaction", "server_round_robin = 1\n");
    for (int i = 0; i < 3; i++)
        others[i] = transaction();
    for (int i = 0; i < 3; i++) {
        PQclear(PQexec(others[i], "COMMIT"));
        PQfinish(others[i]);
    }
    start_ns = dlt_host_now(&one.host);
    cr_assert_eq(found(), PG_POOLER_TRANSACTION);
    cr_assert_gt(logged(&server, "LISTEN"), 0, "it was found in the other way");
    cr_assert(dlt_within(start_ns, 3000), "%s", dlt_within_text());
}

/* Silence alone says nothing. Here nothing can reach the idle connection: the other one is at
 * another database. */
Test(pg_pooler, UNAVAILABLE_when_no_message_comes_and_the_session_stays)
{
    struct pg_connection *idle = NULL, *other = NULL;
    enum pg_pooler pooler = PG_POOLER_UNKNOWN;

    pooled("session", NULL);
    (void)dlt_postgres_ask(&server, "CREATE DATABASE elsewhere OWNER u");
    target_set(&two, server.address);
    two.target.path = "/elsewhere";
    cr_assert_eq(dlt_session_open(&two), DLOCK_OK, "%s", two.err.message);
    idle = &((struct pg_session *)one.self)->conn;
    other = &((struct pg_session *)two.self)->conn;
    idle->deadline_ns = other->deadline_ns = dlt_host_in(&one.host, 5000);
    cr_assert_eq(pg_pooler_test(idle, other, &pooler, &one.err), DLOCK_UNAVAILABLE, "%d",
                 (int)pooler);
    cr_assert_eq(pooler, PG_POOLER_UNKNOWN);
    cr_assert_not(idle->dead || other->dead);
    cr_assert_eq(found(), PG_POOLER_SESSION, "the next test finds out");
}

/* It was granted to two clients there. */
Test(pg_pooler, OPN_1_strategy_session_needs_a_session)
{
    char where[32];

    for (int i = 0; i < 2; i++) {
        cr_assert(dlt_pgbouncer_start(&bouncer, &server, i == 0 ? "session" : "transaction", NULL),
                  "%s", bouncer.why);
        (void)snprintf(where, sizeof where, "127.0.0.1:%u", bouncer.port);
        target_set(&one, where);
        dlt_session_option(&one, "strategy", "session");
        dlt_session_option(&one, "session_grace", "5000");
        cr_assert_eq(dlt_session_open(&one), i == 0 ? DLOCK_OK : DLOCK_CONFIG, "%s",
                     one.err.message);
        cr_assert(i == 0 || strstr(one.err.message, "pooler") != NULL, "%s", one.err.message);
        if (i == 0)
            cr_assert(is_pooled());
        dlt_session_close(&one);
        dlt_pgbouncer_stop(&bouncer);
    }
}

static bool check_take(void *arg, const struct dlock_check *check)
{
    if (strcmp(check->name, "pooler") == 0)
        (void)snprintf(arg, 256, "%s|%s", check->found, check->advice != NULL ? "advice" : "");
    return false;
}

Test(pg_pooler, doctor_says_what_stands_between)
{
    static const char *const modes[] = {"session", "transaction"};
    static const char *const wants[] = {"one that lends its server to a session|",
                                        "one that lends its server to a transaction|advice"};
    char got[256];

    for (int i = 0; i < 2; i++) {
        pooled(modes[i], NULL);
        got[0] = '\0';
        cr_assert_eq(one.ops->probe(one.self, dlt_host_in(&one.host, 5000), &one.info, check_take,
                                    got, &one.err),
                     DLOCK_OK, "%s", one.err.message);
        cr_assert_str_eq(got, wants[i]);
        dlt_session_close(&one);
        dlt_pgbouncer_stop(&bouncer);
    }
}

/* C9: a pooler that is not there any more is a failure, and no kind of pooler. */
Test(pg_pooler, UNAVAILABLE_when_there_is_no_second_connection)
{
    struct pg_session *session = NULL;
    enum pg_pooler pooler = PG_POOLER_UNKNOWN;

    pooled("session", "max_client_conn = 1\n");
    session = one.self;
    cr_assert_neq(pg_pooler_find(&session->conn, dlt_host_in(&one.host, 1000), &pooler, &one.err),
                  DLOCK_OK);
    cr_assert_eq(atomic_load(&session->shared->pooler), PG_POOLER_UNKNOWN);
    cr_assert_neq(one.err.message[0], '\0');
}
