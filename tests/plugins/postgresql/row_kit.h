/* SPDX-License-Identifier: MIT */
/* row_kit.h - three sessions of one client with strategy=row, beside one server for all tests. */
#ifndef DLT_ROW_KIT_H
#define DLT_ROW_KIT_H

#include "pg_kit.h"

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

static inline enum dlock_status try_with(struct dlt_session *session, struct dlt_request *request,
                                         uint32_t flags)
{
    enum dlock_status status = DLOCK_INTERNAL;

    request->req.flags = flags;
    status = dlt_try(session, request);
    request->req.flags = 0;
    return status;
}

static inline void queue(struct dlt_session *session, struct dlt_request *request)
{
    cr_assert_eq(try_with(session, request, DLOCK_REQ_ENQUEUE), DLOCK_BUSY, "%s",
                 session->err.message);
    cr_assert(session->grant.flags & DLOCK_GRANT_QUEUED);
}

/* OK granted, BUSY still queued, LOST not known. */
static inline enum dlock_status refresh(struct dlt_session *session, struct dlt_request *request)
{
    enum dlock_status status = try_with(session, request, DLOCK_REQ_REFRESH);

    if (status == DLOCK_BUSY && (session->grant.flags & DLOCK_GRANT_QUEUED) == 0)
        return DLOCK_LOST;
    return status;
}

static inline enum dlock_status dequeue(struct dlt_session *session, struct dlt_request *request)
{
    return session->ops->dequeue(session->self, dlt_due(session, request, session->call_ms),
                                 &session->err);
}

static inline enum dlock_status downgrade(struct dlt_session *session, struct dlt_request *request)
{
    enum dlock_status status = DLOCK_INTERNAL;

    request->req.flags = DLOCK_REQ_DOWNGRADE;
    request->req.mode = DLOCK_SHARED;
    status = dlt_renew(session, request);
    request->req.flags = 0;
    return status;
}

/* As the administrator, without an answer. */
static inline void administer(const char *sql)
{
    const char *answer = dlt_postgres_ask(&server, "%s", sql);

    cr_assert_str_empty(answer, "%s: %s", sql, answer);
}

#endif
