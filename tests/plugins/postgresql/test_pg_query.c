/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/query.c plugins/postgresql/connection.c */
/* Tests: plugins/postgresql/open.c */
/*
 * One statement, one exchange: what it answers, what an error and a silence mean, with and without
 * the transaction around it (TRY-4, REN-4, UNL-2, FAI-1, INT-2).
 */
#include "connect.h"
#include "open.h"
#include "pg_kit.h"
#include "query.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct dlt_postgres server;
static struct dlt_session s;
static struct pg_config config;
static struct pg_connection conn;
static struct dlock_error err;
static PGresult *result;
static atomic_int stop;

static void begin(const char *const *args)
{
    if (args == NULL)
        cr_assert(dlt_postgres_borrow(&server), "%s", server.why);
    else
        cr_assert(dlt_postgres_start(&server, args), "%s", server.why);
    dlt_session_init(&s, &server);
    cr_assert_eq(pg_config_init(&config, &s.target, &s.err), DLOCK_OK, "%s", s.err.message);
    conn = (struct pg_connection){.config = &config,
                                  .host = &s.host.table,
                                  .shared = pg_shared_find(&config, &s.host.table),
                                  .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                  .for_messages = true};
    cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 5000), &err), DLOCK_OK, "%s", err.message);
}

static void set_up(void)
{
    begin(NULL);
}

static void tear_down(void)
{
    PQclear(result);
    (void)close(conn.wake_fd);
    pg_connect_close(&conn);
    pg_shared_unref(conn.shared);
    dlt_postgres_stop(&server);
}

TestSuite(query, .init = set_up, .fini = tear_down);

/* Runs a statement in ms. */
static enum dlock_status run(const char *sql, const struct pg_params *params, int64_t ms)
{
    enum dlock_status status = DLOCK_INTERNAL;

    PQclear(result);
    result = NULL;
    err = (struct dlock_error)DLOCK_ERROR_INIT;
    status = pg_connection_enter(&conn, dlt_host_in(&s.host, ms), &err);
    if (status == DLOCK_OK)
        status = pg_query(&conn, sql, params, &result, &err);
    cr_assert_eq(result != NULL, status == DLOCK_OK);
    cr_assert(status == DLOCK_OK || err.status == status);
    return status;
}

static void want(enum dlock_status status, const char *sql)
{
    enum dlock_status got = run(sql, NULL, 5000);

    cr_assert_eq(got, status, "%s: %s, %s", sql, dlock_status_name((int)got), err.message);
}

Test(query, values_go_there_and_come_back)
{
    struct pg_params params = {.count = 0};
    size_t len = 0;

    pg_params_bytes(&params, "a\0\xff", 3);
    pg_params_number(&params, INT64_MIN);
    pg_params_text(&params, "text");
    pg_params_bytes(&params, NULL, 0);
    pg_params_text(&params, NULL);
    pg_params_literal(&params, "{1,2}");
    for (int isolate = 0; isolate < 2; isolate++) {
        conn.isolate = isolate != 0;
        cr_assert_eq(
            run("SELECT $1, $2, $3, $4, $5, cardinality($6::int[]), 7::int2, true", &params, 5000),
            DLOCK_OK, "%s", err.message);
        cr_assert_eq(pg_query_expect(&conn, &result, 8, 1, &err), DLOCK_OK);
        cr_assert_eq(memcmp(pg_query_bytes(result, 0, 0, &len), "a\0\xff", 3), 0);
        cr_assert_eq(len, 3);
        cr_assert_eq(pg_query_number(result, 0, 1), INT64_MIN);
        cr_assert_str_eq(pg_query_text(result, 0, 2), "text");
        cr_assert_null(pg_query_bytes(result, 0, 3, &len));
        cr_assert_null(pg_query_text(result, 0, 4));
        cr_assert_eq(pg_query_number(result, 0, 4), 0);
        cr_assert_eq(pg_query_number(result, 0, 5), 2);
        cr_assert_eq(pg_query_number(result, 0, 6), 7);
        cr_assert_eq(pg_query_number(result, 0, 7), 1);
        cr_assert_not(conn.dead);
    }
    cr_assert_eq(pg_query_expect(&conn, &result, 9, 1, &err), DLOCK_PROTOCOL);
    cr_assert(conn.dead);
}

Test(query, the_transaction_around_a_statement_is_READ_COMMITTED_and_ends)
{
    want(DLOCK_OK, "SET default_transaction_isolation = 'serializable'");
    want(DLOCK_OK, "SELECT current_setting('transaction_isolation')");
    cr_assert_str_eq(pg_query_text(result, 0, 0), "serializable");
    want(DLOCK_OK, "SET default_transaction_read_only = on");
    conn.isolate = true;
    want(DLOCK_OK, "SELECT current_setting('transaction_isolation') || "
                   "current_setting('transaction_read_only')");
    cr_assert_str_eq(pg_query_text(result, 0, 0), "read committedoff");
    cr_assert_eq(PQtransactionStatus(conn.pq), PQTRANS_IDLE);
    want(DLOCK_CONFIG, "SELECT * FROM no_such_table");
    cr_assert_eq(err.code, pg_connection_error_code("42P01"));
    cr_assert_eq(PQtransactionStatus(conn.pq), PQTRANS_IDLE);
    cr_assert_not(conn.dead);
    want(DLOCK_OK, "SELECT 1");
}

/* What an error has undone was undone: also when it comes with the COMMIT. */
Test(query, TRY_4_an_error_of_the_commit_is_definite)
{
    want(DLOCK_OK, "CREATE TEMP TABLE pair (a int PRIMARY KEY, "
                   "b int REFERENCES pair DEFERRABLE INITIALLY DEFERRED)");
    for (int isolate = 0; isolate < 2; isolate++) {
        conn.isolate = isolate != 0;
        want(DLOCK_CONFIG, "INSERT INTO pair VALUES (1, 2)");
        cr_assert_eq(err.code, pg_connection_error_code("23503"), "%s", err.message);
        want(DLOCK_OK, "SELECT count(*) FROM pair");
        cr_assert_eq(pg_query_number(result, 0, 0), 0);
    }
}

Test(query, an_error_of_contention_is_told_apart)
{
    want(DLOCK_UNAVAILABLE, "DO $$ BEGIN RAISE serialization_failure; END $$");
    cr_assert(pg_connection_is_contention(err.code));
    cr_assert(conn.isolate, "the default isolation was changed under us");
    cr_assert_not(conn.dead);
    conn.isolate = false;
    want(DLOCK_OK, "SET default_transaction_read_only = on");
    want(DLOCK_UNAVAILABLE, "CREATE TABLE public.not_made (a int)");
    want(DLOCK_OK, "CREATE TEMP TABLE made (a int)");
}

Test(query, FAI_1_a_session_that_the_server_ends)
{
    char sql[64];

    (void)snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d)", PQbackendPID(conn.pq));
    cr_assert_str_eq(dlt_postgres_ask(&server, "%s", sql), "t");
    dlt_sleep_ms(300);
    want(DLOCK_UNAVAILABLE, "SELECT 1"); /* seen before it is sent */
    cr_assert(strstr(err.message, "closed") != NULL, "%s", err.message);
    for (int isolate = 0; isolate < 2; isolate++) {
        pg_connect_close(&conn);
        cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 5000), &err), DLOCK_OK, "%s", err.message);
        conn.isolate = isolate != 0;
        (void)snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d)", PQbackendPID(conn.pq));
        want(DLOCK_UNKNOWN, sql);
        cr_assert_eq(err.code, pg_connection_error_code("57P01"), "%s", err.message);
        cr_assert(conn.dead);
        want(DLOCK_UNAVAILABLE, "SELECT 1");
    }
}

/* The answer is on its way, and its time is over. */
Test(query, TRY_4_silence_is_UNKNOWN_for_a_write_and_UNAVAILABLE_for_a_read)
{
    for (int isolate = 0; isolate < 2; isolate++) {
        int64_t begin_ns = dlt_host_now(&s.host);

        conn.isolate = isolate != 0;
        cr_assert_eq(run("SELECT pg_sleep(20)", NULL, 200), DLOCK_UNKNOWN);
        cr_assert(dlt_host_within(&s.host, begin_ns, 3000), "%s", dlt_within_text());
        cr_assert(conn.dead);
        pg_connect_close(&conn);
        cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 5000), &err), DLOCK_OK, "%s", err.message);
    }
    conn.deadline_ns = dlt_host_in(&s.host, 200);
    cr_assert_eq(pg_query_read(&conn, "SELECT pg_sleep(20)", NULL, &result, &err),
                 DLOCK_UNAVAILABLE);
    cr_assert_eq(err.status, DLOCK_UNAVAILABLE);
}

/* Behind a pooler an error in place of the number may be another client's, and mostly is not. Here
 * the server refuses BEGIN, or the number itself. */
Test(query, TRY_4_an_error_in_place_of_the_number_is_no_others_answer)
{
    for (int round = 0; round < 3; round++) {
        const bool reads = round == 2;
        enum dlock_status status = DLOCK_INTERNAL;

        conn.pooled = true;
        conn.isolate = round == 1;
        PQclear(PQexec(conn.pq, "BEGIN"));
        PQclear(PQexec(conn.pq, "SELECT 1/0"));
        cr_assert_eq(PQtransactionStatus(conn.pq), PQTRANS_INERROR);
        conn.deadline_ns = dlt_host_in(&s.host, 5000);
        status = (reads ? pg_query_read : pg_query)(&conn, "SELECT 1", NULL, &result, &err);
        cr_assert_eq(status, reads ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN, "%d: %s", round,
                     dlock_status_name((int)status));
        cr_assert(strstr(err.message, ": current transaction is aborted") != NULL &&
                      strstr(err.message, "(25P02)") != NULL,
                  "%d: %s", round, err.message);
        cr_assert_eq(err.code, 0, "another client's, perhaps");
        cr_assert(conn.dead);
        cr_assert_str_eq(s.host.logged, "");
        pg_connect_close(&conn);
        cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 5000), &err), DLOCK_OK, "%s", err.message);
    }
}

static void *interrupt_soon(void *arg)
{
    const uint64_t one = 1;

    dlt_sleep_ms(200);
    atomic_store(&stop, 1);
    cr_assert_eq(write(conn.wake_fd, &one, sizeof one), (ssize_t)sizeof one);
    return arg;
}

Test(query, INT_2_an_interrupt_ends_the_wait_and_stays)
{
    int64_t begin_ns = dlt_host_now(&s.host);
    pthread_t thread;

    conn.stop = &stop;
    cr_assert_eq(pthread_create(&thread, NULL, interrupt_soon, NULL), 0);
    cr_assert_eq(run("SELECT pg_sleep(20)", NULL, 10000), DLOCK_CANCELED);
    (void)pthread_join(thread, NULL);
    cr_assert(dlt_host_within(&s.host, begin_ns, 5000), "%s", dlt_within_text());
    cr_assert(conn.dead);
    pg_connect_close(&conn);
    conn.stop = &stop;
    cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 5000), &err), DLOCK_CANCELED);
}

Test(query, a_script_is_one_transaction)
{
    err = (struct dlock_error)DLOCK_ERROR_INIT;
    cr_assert_eq(
        pg_query_script(&conn,
                        "CREATE TABLE public.half (a int); INSERT INTO public.half VALUES (1);"
                        "SELECT 1/0; CREATE TABLE public.other (a int)",
                        &err),
        DLOCK_CONFIG, "%s", err.message);
    want(DLOCK_CONFIG, "SELECT * FROM public.half");
    cr_assert_eq(pg_query_script(&conn, "BEGIN; SELECT 1/0; COMMIT", &err), DLOCK_CONFIG);
    cr_assert_not(conn.dead);
    cr_assert_eq(PQtransactionStatus(conn.pq), PQTRANS_IDLE);
    want(DLOCK_OK, "SELECT 1");
}

/* The library would wait for our data for ever. */
Test(query, C8_a_copy_is_no_answer)
{
    want(DLOCK_UNKNOWN, "COPY (SELECT 1) TO STDOUT");
    cr_assert(conn.dead);
}

Test(query, C8_an_answer_without_end)
{
    int64_t begin_ns = dlt_host_now(&s.host);

    cr_assert_eq(run("SELECT repeat('x', 100000) FROM generate_series(1, 10000)", NULL, 100),
                 DLOCK_UNKNOWN);
    cr_assert(dlt_host_within(&s.host, begin_ns, 3000), "%s", dlt_within_text());
}

/* ---- two statements in one exchange ---- */

static void prepare(const char *name, const char *sql)
{
    static const struct pg_params none;

    cr_assert_eq(pg_query_prepare(&conn, name, sql, &none, &err), DLOCK_OK, "%s", err.message);
}

/* Two statements, the first of which has to have `status`. Says whether the second was executed. */
static bool pair(enum dlock_status status, const char *first, const char *then)
{
    static const struct pg_params none;
    static int pairs;
    char names[2][16];
    bool second = true;
    enum dlock_status got = DLOCK_INTERNAL;

    for (int i = 0; i < 2; i++) {
        (void)snprintf(names[i], sizeof names[i], "pair_%d", pairs++);
        prepare(names[i], i == 0 ? first : then);
    }
    PQclear(result);
    err = (struct dlock_error)DLOCK_ERROR_INIT;
    conn.deadline_ns = dlt_host_in(&s.host, 1000);
    got = pg_query_prepared_pair(&conn, (const char *const[2]){names[0], names[1]},
                                 (const struct pg_params *const[2]){&none, &none}, &result, &second,
                                 &err);
    cr_assert_eq(got, status, "%s: %s, %s", first, dlock_status_name((int)got), err.message);
    cr_assert_eq(result != NULL, status == DLOCK_OK);
    return second;
}

Test(query, a_pair_is_two_transactions_in_one_exchange)
{
    want(DLOCK_OK, "CREATE TABLE public.pair (a bigint)");
    cr_assert(pair(DLOCK_OK, "INSERT INTO public.pair VALUES (7) RETURNING a",
                   "INSERT INTO public.pair SELECT pg_current_xact_id()::text::bigint -"
                   " xmin::text::bigint FROM public.pair"));
    cr_assert_eq(pg_query_number(result, 0, 0), 7, "the answer to the first one");
    want(DLOCK_OK, "SELECT count(*), min(a) FROM public.pair");
    cr_assert_eq(pg_query_number(result, 0, 0), 2);
    cr_assert_gt(pg_query_number(result, 0, 1), 0, "another transaction");
    cr_assert_not(conn.dead);
}

Test(query, TRY_4_each_of_a_pair_fails_by_itself)
{
    want(DLOCK_OK, "CREATE TABLE public.apart (a bigint PRIMARY KEY)");
    cr_assert_not(pair(DLOCK_OK, "INSERT INTO public.apart VALUES (1) RETURNING a",
                       "INSERT INTO public.apart VALUES (1)"));
    cr_assert(pair(DLOCK_UNAVAILABLE, "INSERT INTO public.apart VALUES (1)",
                   "INSERT INTO public.apart VALUES (2)"));
    want(DLOCK_OK, "SELECT count(*) FROM public.apart");
    cr_assert_eq(pg_query_number(result, 0, 0), 2);
    cr_assert_eq(PQtransactionStatus(conn.pq), PQTRANS_IDLE);
    cr_assert_not(conn.dead);
}

/* The first of a pair has its answer, and keeps it. */
Test(query, C8_silence_within_a_pair)
{
    const int64_t begin_ns = dlt_host_now(&s.host);

    cr_assert_not(pair(DLOCK_OK, "SELECT 1", "SELECT pg_sleep(20)"));
    cr_assert_eq(pg_query_number(result, 0, 0), 1);
    cr_assert(conn.dead);
    pg_connect_close(&conn);
    cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 5000), &err), DLOCK_OK, "%s", err.message);
    cr_assert_not(pair(DLOCK_UNKNOWN, "SELECT pg_sleep(20)", "SELECT 1"));
    cr_assert(conn.dead);
    cr_assert(dlt_host_within(&s.host, begin_ns, 15000), "%s", dlt_within_text());
}

Test(query, FAI_1_a_session_that_the_server_ends_within_a_pair)
{
    cr_assert_not(pair(DLOCK_OK, "SELECT 1", "SELECT pg_terminate_backend(pg_backend_pid())"));
    cr_assert(conn.dead);
    pg_connect_close(&conn);
    cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 5000), &err), DLOCK_OK, "%s", err.message);
    cr_assert_not(pair(DLOCK_UNKNOWN, "SELECT pg_terminate_backend(pg_backend_pid())", "SELECT 1"));
    cr_assert(conn.dead);
}

Test(query, C8_a_copy_is_no_answer_within_a_pair)
{
    cr_assert_not(pair(DLOCK_UNKNOWN, "COPY (SELECT 1) TO STDOUT", "SELECT 1"));
    cr_assert(conn.dead);
    pg_connect_close(&conn);
    cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 5000), &err), DLOCK_OK, "%s", err.message);
    cr_assert_not(pair(DLOCK_OK, "SELECT 1", "COPY (SELECT 1) TO STDOUT"));
    cr_assert(conn.dead);
}

/* As administrators set them for all of their programs. */
Test(own, defaults_of_the_role_do_no_harm)
{
    static const char *const defaults[] = {"default_transaction_isolation = 'serializable'",
                                           "default_transaction_read_only = on",
                                           "statement_timeout = 1000",
                                           "lock_timeout = 1",
                                           "idle_session_timeout = 1000",
                                           "client_min_messages = debug5",
                                           "synchronous_commit = off"};

    begin((const char *[]){NULL});
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        cr_assert_str_eq(dlt_postgres_ask(&server, "ALTER ROLE u SET %s", defaults[i]), "");
    pg_connect_close(&conn);
    err = (struct dlock_error)DLOCK_ERROR_INIT;
    cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 5000), &err), DLOCK_OK, "%s", err.message);
    cr_assert_not(conn.isolate);
    cr_assert_not(conn.pooled);
    dlt_sleep_ms(1300);
    want(DLOCK_OK, "SELECT current_setting('transaction_isolation')");
    cr_assert_str_eq(pg_query_text(result, 0, 0), "read committed");
    want(DLOCK_OK, "SELECT pg_sleep(1.3)");
    want(DLOCK_OK, "CREATE TABLE public.written (a int)");
    tear_down();
}

/* A server that stops answers nothing, and comes back as if nothing had happened. */
Test(own, C8_a_server_that_is_stopped_and_killed)
{
    begin((const char *[]){NULL});
    dlt_postgres_pause(&server, true);
    cr_assert_eq(run("SELECT 1", NULL, 200), DLOCK_UNKNOWN);
    pg_connect_close(&conn);
    cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 200), &err), DLOCK_UNAVAILABLE);
    cr_assert(strstr(err.message, "in time") != NULL, "%s", err.message);
    pg_connect_close(&conn);
    dlt_postgres_pause(&server, false);
    cr_assert_eq(pg_open(&conn, dlt_host_in(&s.host, 20000), &err), DLOCK_OK, "%s", err.message);
    dlt_postgres_kill(&server);
    cr_assert_neq(run("SELECT 1", NULL, 2000), DLOCK_OK);
    cr_assert(conn.dead);
    tear_down();
}
