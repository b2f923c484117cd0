/* SPDX-License-Identifier: MIT */
/* Acquires and releases a name: each call is one script. */
#include "lease.h"
#include "lib/hex.h"
#include "redis/call/route.h"
#include "release.h"
#include "resp/error.h"
#include "take.h"
#include "waiter.h"

#include <string.h>

#define ANY_HOLDER "*" /* instead of a token; see release.lua */

/* The build zeroes variables on the stack. These have 10 KB, most of which is never used, and each
 * lock and each unlock has one: zeroing costs too much. */
#define NOT_ZEROED __attribute__((uninitialized))

enum dlock_status redis_lease_trylock(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct redis_session *session = self;
    NOT_ZEROED struct redis_take take;
    redisReply *reply = NULL;
    enum dlock_status status = redis_take_prepare(session, req, &take, err);

    if (status == DLOCK_OK)
        status = redis_take_begin(session, req, &take, err);
    if (status != DLOCK_OK)
        return status;
    status = redis_route_run(session, &take.keys, &take.call, req->deadline_ns, &reply, err);
    return redis_take_end(session, req, &take, status, reply, grant, err);
}

static enum dlock_status release(struct redis_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *token, const char *what,
                                 int64_t deadline_ns, bool *freed, struct dlock_error *err)
{
    NOT_ZEROED struct redis_release call;
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    redis_release_begin(session, name, name_len, token, what, &call);
    status = redis_route_run(session, &call.keys, &call.call, deadline_ns, &reply, err);
    if (status == DLOCK_OK)
        *freed = redis_release_end(session, &call, reply);
    return status;
}

enum dlock_status redis_lease_unlock(void *self, const struct dlock_request *req,
                                     struct dlock_error *err)
{
    struct redis_session *session = self;
    NOT_ZEROED struct redis_release call;
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    redis_release_prepare_unlock(session, req, &call);
    redis_release_begin_unlock(req, &call);
    status = redis_route_run(session, &call.keys, &call.call, req->deadline_ns, &reply, err);
    return redis_release_end_unlock(session, &call, status, reply, err);
}

enum dlock_status redis_lease_dequeue(void *self, const struct dlock_request *req,
                                      struct dlock_error *err)
{
    struct redis_session *session = self;
    char token[RESP_HEX_SIZE];
    bool freed = false;

    redis_waiter_free(req->attempt);
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    return release(session, req->name, req->name_len, token, "DEQUEUE", req->deadline_ns, &freed,
                   err);
}

enum dlock_status redis_lease_break(void *self, const unsigned char *name, uint32_t name_len,
                                    const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    struct redis_session *session = self;
    bool freed = false;
    enum dlock_status status = resp_keys_refuse(&session->config, name, name_len, err);

    if (status == DLOCK_OK && (owner == NULL || strcmp(owner, ANY_HOLDER) != 0))
        status = release(session, name, name_len, owner != NULL ? owner : ANY_HOLDER, "BREAK",
                         deadline_ns, &freed, err);
    if (status == DLOCK_OK && !freed)
        return resp_error_fail(&session->config, err, DLOCK_NOT_HELD,
                               owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
