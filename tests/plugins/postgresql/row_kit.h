/* SPDX-License-Identifier: MIT */
/* row_kit.h - three sessions of one client with strategy=row, beside one server for all tests. */
#ifndef DLT_ROW_KIT_H
#define DLT_ROW_KIT_H

#include "pg_kit.h"
#include "queue_calls.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_postgres server;
static struct dlt_session s, t, u;
static struct dlt_request a, b, c;

/* A client of its own, with tables of this test. */
static inline void client_init(struct dlt_session *session, const char *test)
{
    dlt_session_init(session, &server);
    dlt_session_strategy(session, "row", test);
}

/* Requests of 60 s for the name "job". */
static inline void open_all(const char *test)
{
    if (server.port == 0)
        cr_assert(dlt_postgres_borrow(&server), "%s", server.why);
    client_init(&s, test);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_session_join(&u, &s), DLOCK_OK, "%s", u.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&t, &b, "job", 'b', 60000);
    dlt_request(&u, &c, "job", 'c', 60000);
}

static inline void close_all(void)
{
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_postgres_stop(&server);
}

/* The server crashes, and the sessions are made again. */
static inline void restart(void)
{
    struct dlt_session *const all[] = {&s, &t, &u};

    dlt_postgres_kill(&server);
    cr_assert(dlt_postgres_again(&server), "%s", server.why);
    for (int i = 0; i < 3; i++) {
        dlt_session_close(all[i]);
        cr_assert_eq(dlt_session_open(all[i]), DLOCK_OK, "%s", all[i]->err.message);
    }
}

static inline enum dlock_status dequeue(struct dlt_session *session, struct dlt_request *request)
{
    return session->ops->dequeue(session->self, dlt_due(session, request, session->call_ms),
                                 &session->err);
}

/* As the administrator, without an answer. */
static inline void administer(const char *sql)
{
    const char *answer = dlt_postgres_ask(&server, "%s", sql);

    cr_assert_str_empty(answer, "%s: %s", sql, answer);
}

#endif
