/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/statements.c plugins/postgresql/query.c */
/* Are statements prepared where that is safe, and again where the server has forgotten them? */
#include "pgbouncer_server.h"
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

TestSuite(pg_prepared, .init = setup, .fini = teardown, .timeout = 120);

static void open_one(const char *where)
{
    target_set(&one, where);
    cr_assert_eq(dlt_session_open(&one), DLOCK_OK, "%s", one.err.message);
    dlt_request(&one, &a, "job", 'a', 60000);
}

static struct pg_connection *connection(void)
{
    return &((struct pg_session *)one.self)->conn;
}

static void pairs(int count)
{
    for (int i = 0; i < count; i++) {
        cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
        cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
    }
}

/* Executions of prepared statements. */
static int prepared(void)
{
    return logged(&server, "execute dlock_");
}

static int unnamed(void)
{
    return logged(&server, "execute <unnamed>: SELECT (x.f).*");
}

/* A program that locks once pays nothing for it. */
Test(pg_prepared, from_the_second_time_on)
{
    open_one(server.address);
    pairs(1);
    cr_assert_eq(prepared(), 0);
    cr_assert_eq(unnamed(), 2);
    pairs(3);
    cr_assert_eq(prepared(), 6);
    cr_assert_eq(unnamed(), 2);
}

static void discard(const char *sql)
{
    PGresult *result = PQexec(connection()->pq, sql);

    cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQerrorMessage(connection()->pq));
    PQclear(result);
}

/* SQLSTATE 26000: it was not executed, so that the caller sees nothing of it. */
Test(pg_prepared, TRY_4_the_server_has_forgotten_them)
{
    static const char *const how[] = {"DEALLOCATE ALL", "DISCARD ALL"};
    int before = 0;

    open_one(server.address);
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        pairs(2);
        discard(how[i]);
        before = unnamed();
        cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s: %s", how[i], one.err.message);
        cr_assert_eq(unnamed(), before + 1);
        discard(how[i]);
        cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s: %s", how[i], one.err.message);
        before = prepared();
        pairs(1);
        cr_assert_eq(prepared(), before + 2, "prepared again");
    }
    cr_assert_eq(logged(&server, "does not exist"), 2);
}

/* The name is the text's: what has it does the same. */
Test(pg_prepared, the_session_has_the_name_already)
{
    open_one(server.address);
    pairs(2);
    connection()->prepared = 0;
    pairs(1);
    cr_assert_eq(logged(&server, "already exists"), 2);
    cr_assert_eq(prepared(), 4);
}

/* An administrator makes the functions anew. */
Test(pg_prepared, the_functions_are_made_anew)
{
    open_one(server.address);
    pairs(3);
    (void)dlt_postgres_ask(&server, "DROP FUNCTION w_take");
    cr_assert_eq(dlt_try(&one, &a), DLOCK_CONFIG, "%s", one.err.message);
    target_set(&two, server.address);
    cr_assert_eq(dlt_session_open(&two), DLOCK_OK, "%s", two.err.message);
    pairs(2);
}

/* The answer has another type then, and a prepared statement keeps its own. */
Test(pg_prepared, a_function_gets_another_column)
{
    open_one(server.address);
    pairs(3);
    (void)dlt_postgres_ask(&server, "DROP FUNCTION w_release");
    (void)dlt_postgres_ask(&server,
                           "CREATE FUNCTION w_release(bytea, bytea, boolean, boolean, bigint, OUT"
                           " result bigint, OUT wake text, OUT more int) LANGUAGE sql AS"
                           " $$SELECT 1::bigint, NULL, 1$$");
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_PROTOCOL, "%s", one.err.message);
}

/* A name would stay with a session that other clients get next. */
Test(pg_prepared, never_behind_a_pooler)
{
    static const char *const modes[] = {"transaction", "session"};
    char where[32];

    for (int i = 0; i < 2; i++) {
        cr_assert(dlt_pgbouncer_start(&bouncer, &server, modes[i], NULL), "%s", bouncer.why);
        (void)snprintf(where, sizeof where, "127.0.0.1:%u", bouncer.port);
        open_one(where);
        cr_assert(connection()->pooled);
        pairs(4);
        dlt_session_close(&one);
        dlt_pgbouncer_stop(&bouncer);
    }
    cr_assert_eq(prepared(), 0);
    cr_assert_eq(unnamed(), 16);
}
