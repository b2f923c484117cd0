/* SPDX-License-Identifier: MIT */
/* queue_calls.h - what tests of a store's queue ask of a session, beside the calls of
 * session_kit.h. */
#ifndef DLT_QUEUE_CALLS_H
#define DLT_QUEUE_CALLS_H

#include "session_kit.h"

#include <criterion/criterion.h>

/* A trylock with these flags. */
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

#endif
