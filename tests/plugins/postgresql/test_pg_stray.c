/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/query.c plugins/postgresql/connect.c */
/*
 * A pooler that loses count of the requests hands over answers that belong to other clients. Does a
 * client notice, and take nothing for its own that is not?
 */
#include "pgbouncer_server.h"
#include "row_listener.h"
#include "session.h"
#include "wait_fixture.h"

#include <libpq-fe.h>
#include <signal.h>

static struct dlt_pgbouncer bouncer;
static const char one_session[] = "default_pool_size = 1\n"; /* of the server, for all clients */
static char where[32];                                       /* the address of the pooler */

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

TestSuite(pg_stray, .init = setup, .fini = teardown, .timeout = 120);

static void pooled(const char *mode, const char *settings)
{
    cr_assert(dlt_pgbouncer_start(&bouncer, &server, mode, settings), "%s", bouncer.why);
    (void)snprintf(where, sizeof where, "127.0.0.1:%u", bouncer.port);
}

/* "1.18.0" of "PgBouncer 1.18.0"; "": it does not say. */
static void pooler_version(char version[32])
{
    FILE *said = popen("pgbouncer --version", "r");

    version[0] = '\0';
    cr_assert_not_null(said);
    if (fscanf(said, "%*s %31s", version) != 1)
        version[0] = '\0';
    (void)pclose(said);
}

/* Of other versions it is not known. */
static bool is_known_to_mix_up(const char *version)
{
    return strncmp(version, "1.18.", 5) == 0;
}

/* Every third round or so is one, of a message that comes at a bad time. */
static int rounds(void)
{
    char version[32];

    pooler_version(version);
    return is_known_to_mix_up(version) ? 60 : 5;
}

static void must_have_strayed(bool strays)
{
    char version[32];

    pooler_version(version);
    if (!strays && !is_known_to_mix_up(version))
        cr_skip_test("pgbouncer %s mixes no answers up, as 1.18 does", version);
    cr_assert(strays, "in no round the answers were mixed up");
}

/* Another client, with the settings of one of dlock: pgbouncer has no reason to change them. */
static PGconn *other_open(void)
{
    char text[160];
    PGconn *pq = NULL;

    (void)snprintf(text, sizeof text,
                   "host=127.0.0.1 port=%u user=u password=secret dbname=locks"
                   " application_name=dlock client_encoding=UTF8",
                   bouncer.port);
    pq = PQconnectdb(text);
    cr_assert_eq(PQstatus(pq), CONNECTION_OK, "%s", PQerrorMessage(pq));
    return pq;
}

static pid_t other_listens(PGconn *pq)
{
    PGresult *result = PQexec(pq, "LISTEN stray");
    pid_t pid = 0;

    PQclear(result);
    result = PQexec(pq, "SELECT pg_backend_pid()");
    cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(pq));
    pid = (pid_t)strtol(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    cr_assert_gt(pid, 1);
    return pid;
}

static void *wake_later(void *arg)
{
    dlt_sleep_ms(200);
    (void)kill(*(pid_t *)arg, SIGCONT);
    return NULL;
}

/*
 * A message for a client comes when pgbouncer has seen the client's end (`leave`) and has sent its
 * reset query, and the server has not answered it: pgbouncer takes the session for a free one, and
 * gives it to the next client. The server answers 200 ms later.
 */
static void message_after(void (*leave)(void *), void *arg, const char *channel, pid_t *backend,
                          pthread_t *waker)
{
    (void)kill(bouncer.pid, SIGSTOP);
    leave(arg);
    (void)dlt_postgres_ask(&server, "NOTIFY %s", channel);
    dlt_sleep_ms(100);
    (void)kill(*backend, SIGSTOP);
    (void)kill(bouncer.pid, SIGCONT);
    dlt_sleep_ms(100);
    cr_assert_eq(pthread_create(waker, NULL, wake_later, backend), 0);
}

static void other_ends(void *pq)
{
    PQfinish(pq);
}

static enum dlock_status open_after_a_message(void)
{
    PGconn *pq = other_open();
    pid_t backend = other_listens(pq);
    enum dlock_status status = DLOCK_INTERNAL;
    pthread_t waker;

    message_after(other_ends, pq, "stray", &backend, &waker);
    target_set(&one, where);
    status = dlt_session_open(&one);
    (void)pthread_join(waker, NULL);
    return status;
}

/* The open was PROTOCOL: the answer that came was DISCARD ALL's. */
Test(pg_stray, OPN_1_the_answer_to_a_reset_query_comes_first)
{
    const int most = rounds();
    bool strays = false;

    pooled("session", one_session);
    for (int i = 0; i < most && !strays; i++) {
        cr_assert_eq(open_after_a_message(), DLOCK_OK, "%s: %s",
                     dlock_status_name((int)one.err.status), one.err.message);
        strays = atomic_load(&((struct pg_session *)one.self)->shared->stray_reported);
        dlt_session_close(&one);
    }
    must_have_strayed(strays);
}

/* Sends a statement that takes half a second behind one that takes none, and ends between the two
 * answers. */
static void other_leaves(const char *statement)
{
    PGconn *pq = other_open();
    PGresult *result = NULL;

    cr_assert(PQenterPipelineMode(pq) == 1 &&
              PQsendQueryParams(pq, "SELECT 1", 0, NULL, NULL, NULL, NULL, 1) == 1 &&
              PQpipelineSync(pq) == 1 &&
              PQsendQueryParams(pq, statement, 0, NULL, NULL, NULL, NULL, 1) == 1 &&
              PQpipelineSync(pq) == 1);
    result = PQgetResult(pq);
    cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(pq));
    PQclear(result);
    PQclear(PQgetResult(pq));
    result = PQgetResult(pq);
    cr_assert_eq(PQresultStatus(result), PGRES_PIPELINE_SYNC, "%s", PQerrorMessage(pq));
    PQclear(result);
    PQfinish(pq);
}

/* A grant for nobody, half a second later. */
static const char like_a_grant[] =
    "SELECT 1::bigint AS result, 99::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::text AS wake"
    " FROM pg_sleep(0.5)";

/* Whether the try for a held name met the answer that another client left behind. */
static bool try_behind_another(void)
{
    enum dlock_status status = DLOCK_OK;
    bool strays = false;

    target_set(&two, where);
    cr_assert_eq(dlt_session_open(&two), DLOCK_OK, "%s", two.err.message);
    dlt_request(&two, &b, "job", 'b', 60000);
    other_leaves(like_a_grant);
    status = dlt_try(&two, &b);
    cr_assert_neq(status, DLOCK_OK, "a second holder");
    cr_assert(status == DLOCK_UNKNOWN || status == DLOCK_BUSY, "%s: %s",
              dlock_status_name((int)status), two.err.message);
    strays = status == DLOCK_UNKNOWN && strstr(two.err.message, "another request") != NULL;
    dlt_session_close(&two);
    return strays;
}

/* What a client left behind looks like a grant. It was taken for one: the name had two holders. */
Test(pg_stray, C1_another_clients_answer_grants_nothing)
{
    const int most = rounds();
    bool strays = false;

    pooled("transaction", one_session);
    target_set(&one, server.address);
    cr_assert_eq(dlt_session_open(&one), DLOCK_OK, "%s", one.err.message);
    dlt_request(&one, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    for (int i = 0; i < most && !strays; i++)
        strays = try_behind_another();
    must_have_strayed(strays);
    target_set(&two, where);
    cr_assert_eq(dlt_session_open(&two), DLOCK_OK, "%s", two.err.message);
    cr_assert_eq(dlt_try(&two, &b), DLOCK_BUSY, "%s", two.err.message);
}

static void listener_ends(void *arg)
{
    (void)arg;
    forget(&two, &b);
    dlt_session_close(&two);
}

/* A client of dlock that has listened must leave nothing for other programs, which may take it. */
Test(pg_stray, a_client_that_listened_leaves_no_answer_behind)
{
    PGconn *others[3];
    char channel[PG_INBOX_SIZE];
    const char *pid = NULL;
    pid_t backend = 0;
    pthread_t waker;

    pooled("session", NULL);
    target_set(&one, server.address);
    target_set(&two, where);
    cr_assert_eq(dlt_session_open(&one), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(dlt_session_open(&two), DLOCK_OK, "%s", two.err.message);
    dlt_request(&one, &a, "job", 'a', 60000);
    dlt_request(&two, &b, "job", 'b', 60000);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    queue_up(&two, &b);
    (void)snprintf(channel, sizeof channel, "%s",
                   pg_listener_get(((struct pg_session *)two.self)->shared)->channel);
    pid = dlt_postgres_ask(
        &server, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN %s%%'", channel);
    backend = (pid_t)strtol(pid, NULL, 10);
    cr_assert_gt(backend, 1);
    message_after(listener_ends, NULL, channel, &backend, &waker);
    for (int i = 0; i < 3; i++) {
        PGresult *result = PQexec(others[i] = other_open(), "SELECT 1");

        cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQcmdStatus(result));
        PQclear(result);
    }
    for (int i = 0; i < 3; i++)
        PQfinish(others[i]);
    (void)pthread_join(waker, NULL);
}

#define CROWD 16

static struct dlt_session crowd[CROWD];
static struct dlt_request wants[CROWD];
static unsigned met[CROWD]; /* statuses, as bits; PROTOCOL: or an answer was another client's */
static atomic_bool crowd_ends;

static void *crowd_member(void *arg)
{
    const size_t me = (size_t)((struct dlt_session *)arg - crowd);

    while (!atomic_load(&crowd_ends)) {
        enum dlock_status status = dlt_session_open(&crowd[me]);

        met[me] |= 1u << status;
        if (strstr(crowd[me].host.logged, "another request") != NULL)
            met[me] |= 1u << DLOCK_PROTOCOL;
        if (status == DLOCK_OK && dlt_try(&crowd[me], &wants[me]) == DLOCK_OK)
            (void)dlt_unlock(&crowd[me], &wants[me]);
        dlt_session_close(&crowd[me]);
        target_set(&crowd[me], where);
    }
    return NULL;
}

/* Too many clients for the pooler, too few sessions, and sessions that end: what pgbouncer says
 * then has a form of its own. */
Test(pg_stray, C9_a_pool_that_is_full_and_loses_sessions_is_UNAVAILABLE)
{
    pthread_t threads[CROWD];
    unsigned all = 0;

    pooled("session", "default_pool_size = 2\nmax_client_conn = 12\nquery_wait_timeout = 1\n");
    target_set(&one, where);
    cr_assert_eq(dlt_session_open(&one), DLOCK_OK, "%s", one.err.message); /* makes the tables */
    dlt_session_close(&one);
    for (size_t i = 0; i < CROWD; i++) {
        target_set(&crowd[i], where);
        dlt_request(&crowd[i], &wants[i], "crowd", (unsigned char)(i + 1), 5000);
    }
    for (size_t i = 0; i < CROWD; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, crowd_member, &crowd[i]), 0);
    for (int i = 0; i < 10; i++) {
        dlt_sleep_ms(150);
        (void)dlt_postgres_ask(&server, "SELECT count(pg_terminate_backend(pid))"
                                        " FROM pg_stat_activity WHERE usename = 'u'");
    }
    atomic_store(&crowd_ends, true);
    for (size_t i = 0; i < CROWD; i++) {
        (void)pthread_join(threads[i], NULL);
        all |= met[i];
    }
    cr_assert_eq(all, 1u << DLOCK_OK | 1u << DLOCK_UNAVAILABLE, "statuses with the bits %x", all);
}
