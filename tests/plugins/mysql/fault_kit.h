/* SPDX-License-Identifier: MIT */
/* fault_kit.h - a server of a test's own, three sessions of one client, and waiters; for a fixture
 * with begin and end. */
#ifndef DLT_FAULT_KIT_H
#define DLT_FAULT_KIT_H

#include "my_kit.h"
#include "strategies.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_maria server;
static struct dlt_session s, t, u; /* of one client */
static struct dlt_request a, b, c;

static const char *const *server_args = (const char *const[]){"--max-connections=12", NULL};

static inline void server_begin(const char *strategy)
{
    cr_assert(dlt_maria_start(&server, server_args), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "strategy", strategy);
    dlt_session_option(&s, "table_prefix", "f_");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_session_join(&u, &s), DLOCK_OK, "%s", u.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&t, &b, "job", 'b', 60000);
    dlt_request(&u, &c, "job", 'c', 60000);
}

static inline void server_end(void)
{
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_maria_stop(&server);
}

/* Ends all connections of the plugin at the server, as an administrator does, and waits until they
 * have ended. */
static inline void kill_all(void)
{
    const char *left = "";

    cr_assert_str_eq(dlt_maria_ask(&server, "KILL USER u"), "");
    for (int i = 0; i < 1000 && strcmp(left, "0") != 0; i++) {
        dlt_sleep_ms(10);
        left = dlt_maria_ask(&server, "SELECT COUNT(*) FROM information_schema.processlist"
                                      " WHERE user = 'u'");
    }
    cr_assert_str_eq(left, "0");
    dlt_sleep_ms(100);
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
    int native;
};

static inline void *waiter_run(void *arg)
{
    struct waiter *w = arg;

    w->request->req.deadline_ns = dlt_host_in(&s.host, w->timeout_ms);
    w->request->req.op_timeout_ms = 5000;
    if (w->native)
        w->status = dlt_lock(w->session, w->request, w->timeout_ms);
    else
        w->status = w->session->ops->watch(w->session->self, &w->request->req, &w->session->grant,
                                           &w->session->err);
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

/* The one who was let through tries at once, and waits for the name after that. */
static inline void becomes_head(struct waiter *w)
{
    const int64_t timeout_ms = w->timeout_ms;

    w->timeout_ms = 20000;
    waiter_start(w);
    cr_assert_eq(waiter_join(w), DLOCK_BUSY, "%s", w->session->err.message);
    w->timeout_ms = timeout_ms;
    cr_assert_eq(dlt_try(w->session, w->request), DLOCK_BUSY, "%s", w->session->err.message);
}

/* So many of ours are in this state, or after 5 s they are not. */
static inline void await_state(const char *like, int count)
{
    char want[16];
    const char *got = "";

    (void)snprintf(want, sizeof want, "%d", count);
    for (int i = 0; i < 500; i++) {
        got = dlt_maria_ask(&server,
                            "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'u' "
                            "AND (state LIKE '%s' OR info LIKE '%s')",
                            like, like);
        if (strcmp(got, want) == 0)
            return;
        dlt_sleep_ms(10);
    }
    cr_assert_str_eq(got, want, "%s", like);
}

/* Where row_hold_start finds the name. */
static const char *row_hold_table = "names";

static inline void *row_hold(void *arg)
{
    (void)dlt_maria_ask(
        &server,
        "BEGIN; SELECT 1 FROM f_%s WHERE name IN ('%s') FOR UPDATE; DO SLEEP(60); ROLLBACK",
        row_hold_table, (const char *)arg);
    return NULL;
}

/* Returns when a connection sleeps in SLEEP: its number. */
static inline const char *await_sleep(void)
{
    const char *id = "";

    for (int i = 0; i < 1000 && id[0] == '\0'; i++) {
        dlt_sleep_ms(10);
        id = dlt_maria_ask(&server, "SELECT COALESCE(MAX(id), '') FROM"
                                    " information_schema.processlist WHERE state = 'User sleep'");
    }
    cr_assert_str_neq(id, "");
    return id;
}

/* Returns when the row of the name is held: the number of the connection that does. */
static inline const char *row_hold_start(pthread_t *thread, const char *name)
{
    static char copy[32];

    (void)snprintf(copy, sizeof copy, "%s", name);
    cr_assert_eq(pthread_create(thread, NULL, row_hold, copy), 0);
    return await_sleep();
}

static inline void row_hold_end(pthread_t thread, const char *id)
{
    cr_assert_str_eq(dlt_maria_ask(&server, "KILL %s", id), "");
    (void)pthread_join(thread, NULL);
}

#endif
