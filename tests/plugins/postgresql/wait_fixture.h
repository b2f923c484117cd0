/* SPDX-License-Identifier: MIT */
/*
 * wait_fixture.h - a server of a test's own that logs each statement, and two clients: `one`, and
 * another one with the sessions `two` and `also`.
 */
#ifndef DLT_WAIT_FIXTURE_H
#define DLT_WAIT_FIXTURE_H

#include "postgres_server.h"
#include "queue_calls.h"
#include "server_log.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const struct dlock_plugin *dlock_plugin_postgresql(void);

static struct dlt_postgres server;
static struct dlt_session one, two, also;
static struct dlt_request a, b, c; /* of these three, for one name */

static inline void target_set(struct dlt_session *session, const char *where)
{
    static const char *const options[][2] = {
        {"strategy", "row"}, {"table_prefix", "w_"},   {"schema", "public"},
        {"create", "1"},     {"waiter_lease", "3000"},
    };
    static bool begun;

    dlt_session_target(session, dlock_plugin_postgresql(), "postgresql", where);
    session->call_ms = 5000;
    session->target.user = "u";
    session->target.password = "secret";
    session->target.path = "/locks";
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        dlt_session_option(session, options[i][0], options[i][1]);
    if (!begun && dlock_plugin_postgresql()->init(&session->host.table, &session->err) != DLOCK_OK)
        abort();
    begun = true;
}

/* Another session of that client. */
static inline void join(struct dlt_session *session, struct dlt_session *first)
{
    *session = *first;
    session->self = NULL;
    session->shared = first->shared;
    session->hosts[0] = session->address;
    session->target.hosts = session->hosts;
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

static inline void open_at(const char *where)
{
    target_set(&one, where);
    target_set(&two, where);
    cr_assert_eq(dlt_session_open(&one), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(dlt_session_open(&two), DLOCK_OK, "%s", two.err.message);
    join(&also, &two);
    dlt_request(&one, &a, "job", 'a', 60000);
    dlt_request(&two, &b, "job", 'b', 60000);
    dlt_request(&also, &c, "job", 'c', 60000);
}

static inline void forget(struct dlt_session *session, struct dlt_request *request)
{
    if (session->self != NULL && session->ops->forget != NULL)
        session->ops->forget(session->self, &request->req);
}

static inline void close_all(void)
{
    forget(&one, &a);
    forget(&two, &b);
    forget(&also, &c);
    dlt_session_close(&also);
    dlt_session_close(&two);
    dlt_session_close(&one);
}

static inline enum dlock_status watch(struct dlt_session *session, struct dlt_request *request,
                                      int64_t timeout_ms)
{
    (void)dlt_due(session, request, timeout_ms);
    session->grant = (struct dlock_grant){.struct_size = sizeof session->grant};
    return session->ops->watch(session->self, &request->req, &session->grant, &session->err);
}

static inline enum dlock_status dequeue(struct dlt_session *session, struct dlt_request *request)
{
    return session->ops->dequeue(session->self, dlt_due(session, request, session->call_ms),
                                 &session->err);
}

/* Enqueues, and goes on until the client listens and the entry is known since then. */
static inline void queue_up(struct dlt_session *session, struct dlt_request *request)
{
    queue(session, request);
    cr_assert_eq(watch(session, request, 5000), DLOCK_BUSY, "%s", session->err.message);
    cr_assert_eq(refresh(session, request), DLOCK_BUSY, "%s", session->err.message);
    cr_assert_eq(session->grant.flags, DLOCK_GRANT_QUEUED);
}

static inline int64_t ms_since(int64_t begin_ns)
{
    return (dlt_host_now(&one.host) - begin_ns) / DLT_NS_PER_MS;
}

struct watcher {
    struct dlt_session *session;
    struct dlt_request *request;
    int64_t timeout_ms, done_ns;
    enum dlock_status status;
    pthread_t thread;
};

static inline void *watcher_run(void *arg)
{
    struct watcher *w = arg;

    w->status = watch(w->session, w->request, w->timeout_ms);
    w->done_ns = dlt_host_now(&one.host);
    return NULL;
}

static inline void watcher_start(struct watcher *w)
{
    cr_assert_eq(pthread_create(&w->thread, NULL, watcher_run, w), 0);
}

static inline enum dlock_status watcher_join(struct watcher *w)
{
    (void)pthread_join(w->thread, NULL);
    return w->status;
}

static const char *const log_settings[] = {"-c", "log_statement=all", "-c", "fsync=off", NULL};

/* Connections of the plugin that listen, as the server sees them; waits for the number. */
static inline void await_listening(const char *count)
{
    const char *got = "";

    for (int i = 0; i < 300; i++) {
        got = dlt_postgres_ask(&server, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'u' "
                                        "AND (query LIKE 'LISTEN%%' OR query = '')");
        if (strcmp(got, count) == 0)
            return;
        dlt_sleep_ms(10);
    }
    cr_assert_str_eq(got, count, "connections that listen");
}

#endif
