/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/session_lock.c */
/* key=advisory:N: does a lock wait for, and exclude, programs that lock that number themselves? */
#include "session_fixture.h"

#include <libpq-fe.h>

#define CASE(name, prefix)  \
    static void name(void); \
    Test(advisory, name)    \
    {                       \
        begin_key(prefix);  \
        name();             \
        PQfinish(program);  \
        end();              \
    }                       \
    static void name(void)

static PGconn *program; /* of another program */
static char number[24];

/* The tests share the database: each has a number of its own. */
static void begin_key(const char *prefix)
{
    char key[48], where[160];
    static const char *const order[] = {"out_",   "in_",   "other_", "taken_",
                                        "names_", "show_", "gone_"};
    int64_t n = -4711;

    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        n += strcmp(order[i], prefix) == 0 ? (int64_t)i * 5000000000 : 0;
    cr_assert(dlt_postgres_borrow(&server), "%s", server.why);
    (void)snprintf(number, sizeof number, "%lld", (long long)n);
    (void)snprintf(key, sizeof key, "advisory:%s", number);
    target(&s, prefix);
    dlt_session_option(&s, "key", key);
    open_all();
    (void)snprintf(where, sizeof where,
                   "host=127.0.0.1 port=%u user=u password=secret dbname=locks", server.port);
    program = PQconnectdb(where);
    cr_assert_eq(PQstatus(program), CONNECTION_OK, "%s", PQerrorMessage(program));
}

/* "t", "f" or "". */
static const char *run(const char *function)
{
    static char value[16];
    char text[80];
    PGresult *result = NULL;

    (void)snprintf(text, sizeof text, "SELECT %s(%s)", function, number);
    result = PQexec(program, text);
    cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(program));
    (void)snprintf(value, sizeof value, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return value;
}

CASE(a_lock_keeps_the_program_out, "out_")
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(run("pg_try_advisory_lock"), "f");
    cr_assert_str_eq(run("pg_try_advisory_lock_shared"), "f");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(run("pg_try_advisory_lock"), "f");
    cr_assert_str_eq(run("pg_try_advisory_lock_shared"), "t");
}

CASE(the_program_keeps_a_lock_out, "in_")
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 20000};

    (void)run("pg_advisory_lock");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("in_", "1");
    cr_assert_str_eq(run("pg_advisory_unlock"), "t");
    cr_assert_eq(waiter_join(&w), DLOCK_OK, "%s", t.err.message);
    cr_assert_str_eq(run("pg_try_advisory_lock"), "f");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_str_eq(run("pg_try_advisory_lock"), "t");
}

/* C11, C12: one number is one lock, and two names are two. */
CASE(C11_another_name_is_refused, "other_")
{
    struct dlt_request other;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_request(&t, &other, "other", 'o', 60000);
    cr_assert_eq(dlt_try(&t, &other), DLOCK_CONFIG, "%s", t.err.message);
    cr_assert(strstr(t.err.message, number) != NULL, "%s", t.err.message);
}

/* C12: a client without the option has chosen another number for the name before. */
CASE(C12_a_name_with_another_number_is_refused, "taken_")
{
    (void)dlt_postgres_ask(&server,
                           "INSERT INTO taken_session (name, number, fence) VALUES ('job', 5, 0)");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "number 5") != NULL, "%s", s.err.message);
}

/* C12: a client without the option meets the name's number in its row. */
CASE(C12_clients_with_and_without_the_option_exclude_each_other, "names_")
{
    struct dlt_session plain;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    target(&plain, "names_");
    cr_assert_eq(dlt_session_open(&plain), DLOCK_OK, "%s", plain.err.message);
    cr_assert_eq(dlt_try(&plain, &b), DLOCK_BUSY, "%s", plain.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&plain, &b), DLOCK_OK, "%s", plain.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    dlt_session_close(&plain);
}

/* C2: the row is removed by hand, and a client without the option makes one with another number. */
CASE(C2_a_name_that_has_another_number_now_is_lost, "gone_")
{
    struct dlt_session plain;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)dlt_postgres_ask(&server, "DELETE FROM gone_session");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "no row says nothing: %s", s.err.message);
    target(&plain, "gone_");
    cr_assert_eq(dlt_session_open(&plain), DLOCK_OK, "%s", plain.err.message);
    cr_assert_eq(dlt_try(&plain, &b), DLOCK_OK, "%s", plain.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
    dlt_session_close(&plain);
}

CASE(inspect_shows_the_program, "show_")
{
    struct dlt_holder holder;
    size_t count = 1;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    (void)run("pg_advisory_lock");
    cr_assert_eq(dlt_inspect(&t, "job", &holder, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holder.owner, "");
    cr_assert(strstr(holder.label, "another program") != NULL, "%s", holder.label);
    cr_assert_eq(holder.held_ms, -1, "not known");
    cr_assert_eq(holder.mode, DLOCK_EXCLUSIVE);
}
