/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_listener.c plugins/postgresql/row_lease.c */
/* The connection on which a client hears of grants: when it is there, and what it hears. */
#include "connect.h"
#include "query.h"
#include "row_lease.h"
#include "row_listener.h"
#include "wait_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#define B_HEX "62626262626262626262626262626262"
#define C_HEX "63636363636363636363636363636363"

static struct pg_listener *listener; /* of `two` and `also` */

static struct pg_session *session_of(const struct dlt_session *session)
{
    return session->self;
}

static struct pg_waiter *waiter_of(const struct dlt_request *request)
{
    return ((struct pg_slot *)request->req.attempt)->waiter;
}

static void expect(struct dlt_session *session, struct dlt_request *request)
{
    const char *to = NULL;

    cr_assert_eq(pg_waiter_expect(session_of(session)->shared, &request->req, &to, &session->err),
                 DLOCK_OK);
    listener = atomic_load(&session_of(session)->shared->listener);
    cr_assert_str_eq(to, listener->channel);
}

static void setup(void)
{
    cr_assert(dlt_postgres_start(&server, log_settings), "%s", server.why);
    open_at(server.address);
    (void)dlt_due(&two, &b, 0);
    (void)dlt_due(&also, &c, 0);
}

static void teardown(void)
{
    if (b.req.attempt != NULL)
        pg_waiter_free(b.req.attempt);
    if (c.req.attempt != NULL)
        pg_waiter_free(c.req.attempt);
    close_all();
    dlt_postgres_stop(&server);
}

TestSuite(pg_listener, .init = setup, .fini = teardown, .timeout = 120);

/* Watches until a grant has come, or a message may have been lost, or ms have passed. */
static void hear(struct dlt_session *session, struct dlt_request *request, int64_t ms)
{
    struct pg_waiter *waiter = waiter_of(request);
    const int64_t until_ns = dlt_host_in(session->shared, ms);
    const uint64_t before = waiter->fence;

    (void)pthread_mutex_lock(&listener->waiters.mutex);
    waiter->base.watching = true;
    while (waiter->fence == before && !waiter->recheck && dlt_host_now(session->shared) < until_ns)
        pg_listener_sleep_locked(listener, &waiter->base, &session_of(session)->conn, NULL,
                                 until_ns);
    waiter->base.watching = false;
    waiters_hand_over_locked(&listener->waiters);
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
}

/* Connects, and begins anew. */
static void listen_now(void)
{
    expect(&two, &b);
    hear(&two, &b, 5000);
    cr_assert(listener->listening);
    expect(&two, &b);
    cr_assert_not(waiter_of(&b)->unheard);
    cr_assert_not(waiter_of(&b)->recheck);
}

static void say(const char *text)
{
    (void)dlt_postgres_ask(&server, "NOTIFY %s, '%s'", listener->channel, text);
}

Test(pg_listener, WAT_2_listens_from_the_first_watch_on)
{
    cr_assert_eq(logged(&server, "LISTEN"), 0);
    expect(&two, &b);
    cr_assert(waiter_of(&b)->unheard);
    cr_assert_eq(logged(&server, "LISTEN"), 0, "the request may be granted at once");
    hear(&two, &b, 5000);
    cr_assert(waiter_of(&b)->recheck, "a grant may have come before");
    await_listening("1");
    say(B_HEX " 32 1000");
    expect(&two, &b);
    hear(&two, &b, 5000);
    cr_assert_eq(waiter_of(&b)->fence, 32);
    cr_assert_eq(waiter_of(&b)->lease_ms, 1000);
    cr_assert_eq(logged(&server, "idle_session_timeout = "), 1);
}

Test(pg_listener, PROTOCOL_messages_that_mean_nothing)
{
    static const char *const texts[] = {
        "",
        "x",
        B_HEX,
        B_HEX " ",
        B_HEX " 32",
        B_HEX " 32 ",
        B_HEX " 32 0",
        B_HEX " 32 -1",
        B_HEX " 32 1 ",
        B_HEX " 32x 1",
        B_HEX " 32 1 x",
        B_HEX " 32 1 -1",
        B_HEX " 32 1 1000",
        B_HEX " 32 1 2 3",
        B_HEX "  32 99999999999999999999",
        B_HEX " 99999999999999999999999 1",
        B_HEX " 9223372036854775808 1000",
        B_HEX " -32 1000",
        B_HEX " +32 1000",
        B_HEX "  32 1000",
        B_HEX " 32  1000",
        B_HEX " 32 +1000",
        B_HEX " 32 1000000000000",
        B_HEX "\t32 1",
        B_HEX "62 32 1",
        "6262626262626262626262626262626 32 1",
        "6262626262626262626262626262626G 32 1",
        C_HEX " 32 1000",
    };

    listen_now();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        say(texts[i]);
    say(B_HEX " 64 1000");
    say(B_HEX " 32 2000"); /* an older one, overtaken */
    hear(&two, &b, 5000);
    hear(&two, &b, 200);
    cr_assert_eq(waiter_of(&b)->fence, 64);
    cr_assert_eq(waiter_of(&b)->lease_ms, 1000);
    say(B_HEX " 96 1000 999");
    hear(&two, &b, 5000);
    cr_assert_eq(waiter_of(&b)->fence, 96);
    cr_assert_eq(waiter_of(&b)->permit, 999);
}

struct hearer {
    struct dlt_session *session;
    struct dlt_request *request;
};

static void *hearer_run(void *arg)
{
    struct hearer *hearer = arg;

    hear(hearer->session, hearer->request, 20000);
    return NULL;
}

Test(pg_listener, one_connection_serves_all_waiters_of_the_client)
{
    struct hearer hearers[2] = {{&two, &b}, {&also, &c}};
    pthread_t threads[2];

    listen_now();
    expect(&also, &c);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, hearer_run, &hearers[i]), 0);
    dlt_sleep_ms(200);
    say(B_HEX " 32 1000");
    (void)pthread_join(threads[0], NULL);
    cr_assert_eq(waiter_of(&b)->fence, 32);
    cr_assert_eq(waiter_of(&c)->fence, 0);
    say(C_HEX " 64 1000");
    (void)pthread_join(threads[1], NULL);
    cr_assert_eq(waiter_of(&c)->fence, 64);
    await_listening("1");
}

static void terminate(void)
{
    (void)dlt_postgres_ask(&server, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                    "WHERE query LIKE 'LISTEN%%'");
}

Test(pg_listener, WAT_1_a_connection_that_ends_is_noticed_and_made_again)
{
    listen_now();
    terminate();
    hear(&two, &b, 5000);
    cr_assert(waiter_of(&b)->recheck);
    cr_assert_not(listener->listening);
    listen_now();
    say(B_HEX " 32 1000");
    hear(&two, &b, 5000);
    cr_assert_eq(waiter_of(&b)->fence, 32);
}

/* ... also when nobody watched at that time. */
Test(pg_listener, WAT_2_the_end_is_noticed_before_a_request_leaves)
{
    listen_now();
    terminate();
    dlt_sleep_ms(200);
    expect(&two, &b);
    cr_assert(waiter_of(&b)->unheard);
}

Test(pg_listener, C13_a_connection_that_died_in_silence_is_found_by_a_ping)
{
    listen_now();
    dlt_host_advance(&two.host, 6000);
    hear(&two, &b, 300);
    cr_assert(listener->listening, "the server has answered the ping");
    dlt_postgres_pause(&server, true);
    dlt_host_advance(&two.host, 6000);
    hear(&two, &b, 300);
    cr_assert(listener->listening);
    dlt_host_advance(&two.host, 3000);
    hear(&two, &b, 300);
    cr_assert_not(listener->listening);
    cr_assert(waiter_of(&b)->recheck);
    dlt_postgres_pause(&server, false);
}

/* What the library would give for ever as the answer to a ping. */
Test(pg_listener, PROTOCOL_a_peer_that_begins_a_copy)
{
    listen_now();
    cr_assert_eq(PQsendQuery(listener->conn.pq, "COPY w_queue FROM STDIN"), 1);
    hear(&two, &b, 5000);
    cr_assert_not(listener->listening);
    listen_now();
}

Test(pg_listener, C13_the_connection_stays_for_some_seconds_after_the_last_waiter)
{
    listen_now();
    pg_waiter_free(b.req.attempt);
    pg_listener_tidy(listener);
    await_listening("1");
    dlt_host_advance(&two.host, 6000);
    expect(&two, &b); /* somebody waits again, which comes first or not */
    pg_listener_tidy(listener);
    pg_waiter_free(b.req.attempt);
    pg_listener_tidy(listener);
    dlt_host_advance(&two.host, 6000);
    pg_listener_tidy(listener);
    await_listening("0");
    cr_assert_not(listener->listening);
    listen_now();
    await_listening("1");
}

/* The log says it once, and another attempt follows later. */
Test(pg_listener, C13_no_connection_can_be_had)
{
    (void)dlt_postgres_ask(&server, "ALTER ROLE u CONNECTION LIMIT 3");
    expect(&two, &b);
    hear(&two, &b, 800);
    cr_assert_not(listener->listening);
    cr_assert_eq(two.host.logs, 1, "%s", two.host.logged);
    cr_assert_eq(logged(&server, "too many connections"), 1, "a full server is left in peace");
    (void)dlt_postgres_ask(&server, "ALTER ROLE u CONNECTION LIMIT -1");
    dlt_host_advance(&two.host, 61000);
    hear(&two, &b, 5000);
    cr_assert(listener->listening);
}

Test(pg_listener, C10_a_child_of_a_fork_leaves_the_connection_alone)
{
    pid_t pid = 0;
    int status = 0;

    listen_now();
    pid = fork();
    if (pid == 0) {
        two.ops->close(two.self, true);
        also.ops->close(also.self, true);
        one.ops->close(one.self, true);
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    say(B_HEX " 32 1000");
    hear(&two, &b, 5000);
    cr_assert_eq(waiter_of(&b)->fence, 32);
}

/* ---- sending ---- */

static void notify(struct dlt_session *session, const char *rows)
{
    struct pg_connection *conn = &session_of(session)->conn;
    PGresult *result = NULL;

    conn->deadline_ns = dlt_host_in(session->shared, 5000);
    cr_assert_eq(pg_query(conn, rows, NULL, &result, &session->err), DLOCK_OK, "%s",
                 session->err.message);
    pg_row_lease_notify(conn, result);
    PQclear(result);
}

Test(pg_listener, NOTIFY_goes_to_the_waiters_of_other_clients_alone)
{
    char rows[500];

    listen_now();
    notify(&one, "SELECT 1 AS result, NULL::text AS wake");
    notify(&one, "SELECT 1 AS result");
    notify(&one, "SELECT 1 AS result, '' AS wake");
    cr_assert_eq(logged(&server, "pg_notify("), 0);
    (void)snprintf(rows, sizeof rows, "SELECT '%s " B_HEX " 32 1000' AS wake", listener->channel);
    notify(&also, rows);
    cr_assert_eq(waiter_of(&b)->fence, 32, "without the server");
    cr_assert_eq(logged(&server, "pg_notify("), 0);
    (void)snprintf(rows, sizeof rows,
                   "SELECT E'%s " C_HEX " 32 1000\\ndlock_x " C_HEX " 32 1000' AS wake UNION ALL "
                   "SELECT NULL UNION ALL SELECT E'dlock_y " C_HEX " 32 1\\n%s " B_HEX " 64 1'",
                   listener->channel, listener->channel);
    notify(&also, rows);
    cr_assert_eq(waiter_of(&b)->fence, 64);
    cr_assert_eq(logged(&server, "pg_notify("), 1, "one statement for the others");
    cr_assert_eq(logged(&server, "$1 = 'dlock_x " C_HEX " 32 1000"), 1, "nothing but the others");
    notify(&one, rows);
    cr_assert_eq(logged(&server, "pg_notify("), 2);
}
