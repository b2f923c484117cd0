/* SPDX-License-Identifier: MIT */
/* session_fixture.h - three sessions of one client with strategy=session, and waiters. */
#ifndef DLT_SESSION_FIXTURE_H
#define DLT_SESSION_FIXTURE_H

#include "pg_kit.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_postgres server;
static struct dlt_session s, t, u; /* of one client */
static struct dlt_request a, b, c;

static inline void target(struct dlt_session *session, const char *prefix)
{
    dlt_session_init(session, &server);
    dlt_session_option(session, "strategy", "session");
    dlt_session_option(session, "table_prefix", prefix);
}

static inline void join(struct dlt_session *session)
{
    cr_assert_eq(dlt_session_join(session, &s), DLOCK_OK, "%s", session->err.message);
}

static inline void requests(const char *name)
{
    dlt_request(&s, &a, name, 'a', 60000);
    dlt_request(&t, &b, name, 'b', 60000);
    dlt_request(&u, &c, name, 'c', 60000);
}

static inline void open_all(void)
{
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    join(&t);
    join(&u);
    requests("job");
}

static inline void begin(const char *prefix)
{
    cr_assert(dlt_postgres_borrow(&server), "%s", server.why);
    target(&s, prefix);
    open_all();
}

static inline void end(void)
{
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_postgres_stop(&server);
}

static inline int64_t ms_since(int64_t begin_ns)
{
    return (dlt_host_now(&s.host) - begin_ns) / DLT_NS_PER_MS;
}

static inline void reopen(struct dlt_session *session)
{
    dlt_session_close(session);
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

struct waiter {
    struct dlt_session *session;
    struct dlt_request *request;
    int64_t timeout_ms, done_ns;
    enum dlock_status status;
    pthread_t thread;
};

static inline void *waiter_run(void *arg)
{
    struct waiter *w = arg;

    w->request->req.op_timeout_ms = 2000;
    w->status = dlt_lock(w->session, w->request, w->timeout_ms);
    w->done_ns = dlt_host_now(&s.host);
    return NULL;
}

static inline void waiter_start(struct waiter *w)
{
    cr_assert_eq(pthread_create(&w->thread, NULL, waiter_run, w), 0);
}

static inline enum dlock_status waiter_join(struct waiter *w)
{
    (void)pthread_join(w->thread, NULL);
    return w->status;
}

/* The server gives this answer, in 10 s. */
static inline void await(const char *question, const char *want)
{
    const char *got = "";

    for (int i = 0; i < 1000; i++) {
        got = dlt_postgres_ask(&server, "%s", question);
        if (strcmp(got, want) == 0)
            return;
        dlt_sleep_ms(10);
    }
    cr_assert_str_eq(got, want, "%s", question);
}

/* So many locks of the names of this table prefix are, in pg_locks, what the condition says. */
static inline void await_locks(const char *prefix, const char *condition, const char *count)
{
    char question[400];

    (void)snprintf(
        question, sizeof question,
        "SELECT count(*) FROM pg_locks JOIN %ssession ON number = (classid::bigint << 32)"
        " | objid::bigint WHERE locktype = 'advisory' AND objsubid = 1 AND %s",
        prefix, condition);
    await(question, count);
}

static inline void await_waiters(const char *prefix, const char *count)
{
    await_locks(prefix, "NOT granted", count);
}

#endif
