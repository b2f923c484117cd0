/* SPDX-License-Identifier: MIT */
/* name_kit.h - three clients beside one member for all tests, and requests for the name "job". */
#ifndef DLT_NAME_KIT_H
#define DLT_NAME_KIT_H

#include "etcd_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_etcd server;
static struct dlt_session s, t, u;
static struct dlt_request a, b, c;
static char path[64];

/* A client of its own, with keys of this test. */
static inline void client_init(struct dlt_session *session)
{
    dlt_session_init(session, &server);
    dlt_session_prefix(session, path);
}

/* Requests of 60 s. */
static inline void open_all(const char *test)
{
    if (server.count == 0)
        cr_assert(dlt_etcd_borrow(&server), "%s", server.why);
    (void)snprintf(path, sizeof path, "/%s", test);
    client_init(&s);
    client_init(&t);
    client_init(&u);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_session_open(&u), DLOCK_OK, "%s", u.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&t, &b, "job", 'b', 60000);
    dlt_request(&u, &c, "job", 'c', 60000);
}

static inline void close_all(void)
{
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_etcd_stop(&server);
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

static inline enum dlock_status downgrade(struct dlt_session *session, struct dlt_request *request)
{
    enum dlock_status status = DLOCK_INTERNAL;

    request->req.flags = DLOCK_REQ_DOWNGRADE;
    request->req.mode = DLOCK_SHARED;
    status = dlt_renew(session, request);
    request->req.flags = 0;
    return status;
}

/* How many keys begin with the text, behind the prefix of the test. */
static inline int keys_count(const char *text)
{
    const char *said = dlt_etcd_ask(&server, "get --prefix --keys-only '%s/%s'", path + 1, text);
    int count = 0;

    for (; *said != '\0'; said++)
        count += *said != '\n' && (said[1] == '\n' || said[1] == '\0');
    return count;
}

#endif
