/* SPDX-License-Identifier: MIT */
#include "redis_kit.h"

#include <stdlib.h>

#define CALL_MS 2000

void dlt_session_init(struct dlt_session *session, const char *scheme, const char *where)
{
    dlt_session_target(session, dlock_plugin_redis(), scheme, where);
    session->call_ms = CALL_MS;
    dlt_session_option(session, "waiter_lease", "3000");
    dlt_session_option(session, "sockets", "4");
    dlt_session_option(session, "spin", "1");
    if (getenv("DLT_REDIS_TRUSTED") == NULL)
        session->target.user = session->target.password = DLT_REDIS_LEAST;
}

void dlt_session_trusted(struct dlt_session *session)
{
    session->target.user = session->target.password = NULL;
}

enum dlock_status dlt_session_start(struct dlt_session *session, const struct dlt_redis *server)
{
    enum dlock_status status = DLOCK_INTERNAL;

    dlt_session_init(session, "redis", server->address);
    status = dlt_session_open(session);
    if (status != DLOCK_OK)
        printf("# %s: %s\n", server->address, session->err.message);
    return status;
}

void dlt_session_join(struct dlt_session *session, struct dlt_session *first)
{
    dlt_session_init(session, first->target.scheme, first->address);
    session->shared = first->shared;
    session->subscribed = first->subscribed;
    session->self = first->self;
    session->joined = true;
}

static enum dlock_status try_flagged(struct dlt_session *session, struct dlt_request *request,
                                     uint32_t flags)
{
    enum dlock_status status = DLOCK_INTERNAL;

    request->req.flags = flags;
    status = dlt_try(session, request);
    request->req.flags = 0;
    return status;
}

enum dlock_status dlt_enqueue(struct dlt_session *session, struct dlt_request *request)
{
    return try_flagged(session, request, DLOCK_REQ_ENQUEUE);
}

enum dlock_status dlt_refresh(struct dlt_session *session, struct dlt_request *request)
{
    return try_flagged(session, request, DLOCK_REQ_REFRESH);
}

enum dlock_status dlt_leave(struct dlt_session *session, struct dlt_request *request)
{
    return session->ops->dequeue(session->self, dlt_due(session, request, session->call_ms),
                                 &session->err);
}

enum dlock_status dlt_queue_up(struct dlt_session *session, struct dlt_request *request)
{
    enum dlock_status status = dlt_enqueue(session, request);

    if (status != DLOCK_BUSY || session->subscribed)
        return status;
    session->subscribed = true;
    return dlt_watch(session, request, CALL_MS) == DLOCK_BUSY ? dlt_refresh(session, request)
                                                              : DLOCK_INTERNAL;
}
