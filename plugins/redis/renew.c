/* SPDX-License-Identifier: MIT */
/* Renews leases: one script for each RENEW_AT_ONCE of them. */
#include "renew.h"
#include "call.h"
#include "lib/hex.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/reply.h"
#include "session.h"

#include <stdlib.h>

#define RENEW_AT_ONCE 60 /* leases in one script; other clients wait while it runs */

/* A failure ends no lease: the next renewal may work. */
static enum dlock_status renew_error(enum dlock_status status)
{
    return status == DLOCK_CONFIG ? DLOCK_UNAVAILABLE : status;
}

/* call->expects: the number of names. */
static bool renew_validate(const struct redis_call *call, const redisReply *reply)
{
    int64_t number = 0;

    if (!resp_reply_array(reply, call->expects))
        return false;
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *one = reply->element[i];

        if (one->type != REDIS_REPLY_ERROR &&
            (!resp_reply_array(one, 2) || !resp_reply_int(one, 0, 0, RESP_LEASE_MAX_MS, &number) ||
             !resp_reply_int(one, 1, 0, UINT32_MAX - 1, &number)))
            return false;
    }
    return true;
}

/* The lease that can be relied on, even if more is left of an earlier one [restart_guard]. */
static int64_t ttl_of(const struct redis_session *session, const struct dlock_request *req)
{
    return resp_guard_ttl_ms(redis_pool_guard_ms(&session->pool), req->ttl_ms);
}

static void renewed(const struct redis_session *session, const redisReply *reply,
                    struct dlock_lease_op *op, struct dlock_error *err)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        if (resp_error_is(reply, "WRONGTYPE"))
            op->status = resp_error_fail(&session->config, err, DLOCK_LOST,
                                         "the name's key is used by something else");
        else
            op->status = renew_error(resp_error_take(&session->config, reply, err));
        return;
    }
    if (reply->element[0]->integer == 0) {
        op->status = resp_error_fail(&session->config, err, DLOCK_LOST,
                                     "the name is not held by this token");
        return;
    }
    op->grant.lease_ms = resp_reply_lease_ms(reply->element[0]->integer, ttl_of(session, op->req));
    op->grant.waiters = (uint32_t)reply->element[1]->integer;
    op->status = DLOCK_OK;
}

/* A call, and the texts that it borrows until it was sent. */
struct batch {
    struct redis_call call;
    char token[RENEW_AT_ONCE][RESP_HEX_SIZE];
    char ttl[RENEW_AT_ONCE][RESP_DIGITS];
    struct resp_keys keys[]; /* RENEW_AT_ONCE at most */
};

static void batch_fill(struct batch *batch, const struct redis_session *session,
                       struct dlock_lease_op *const *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        resp_keys_make(&batch->keys[i], &session->config, ops[i]->req->name, ops[i]->req->name_len);
    redis_call_begin(&batch->call, REDIS_SCRIPT_RENEW, batch->keys, n, renew_validate);
    batch->call.expects = n;
    for (size_t i = 0; i < n; i++) {
        const struct dlock_request *req = ops[i]->req;

        dl_hex_encode(batch->token[i], req->token, DLOCK_TOKEN_SIZE);
        resp_command_text(&batch->call.command, batch->token[i]);
        resp_command_text(&batch->call.command,
                          resp_command_number(batch->ttl[i], ttl_of(session, req)));
        resp_command_text(&batch->call.command,
                          (req->flags & DLOCK_REQ_DOWNGRADE) != 0 ? "D" : "-");
    }
    resp_command_text(&batch->call.command, batch->call.guarded);
}

static enum dlock_status batch_run(struct redis_session *session, struct batch *batch,
                                   struct dlock_lease_op *const *ops, size_t n, int64_t deadline_ns,
                                   struct dlock_error *err)
{
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    batch_fill(batch, session, ops, n);
    status = renew_error(redis_call_run(&session->pool, &batch->call, deadline_ns, &reply, err));
    if (status != DLOCK_OK) {
        for (size_t i = 0; i < n; i++)
            ops[i]->status = status;
        return status;
    }
    for (size_t i = 0; i < n; i++)
        renewed(session, reply->element[i], ops[i], err);
    freeReplyObject(reply);
    return DLOCK_OK;
}

enum dlock_status redis_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                              int64_t deadline_ns, struct dlock_error *err)
{
    struct redis_session *session = self;
    size_t most = n < RENEW_AT_ONCE ? n : RENEW_AT_ONCE;
    struct batch *batch = malloc(sizeof *batch + most * sizeof batch->keys[0]);
    enum dlock_status status = DLOCK_OK;
    size_t done = 0;

    if (batch == NULL)
        return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for renewals");
    while (done < n && status == DLOCK_OK) {
        size_t some = n - done < most ? n - done : most;

        status = batch_run(session, batch, ops + done, some, deadline_ns, err);
        done += some;
    }
    free(batch);
    for (size_t i = done; i < n; i++) /* the connection failed: these were not sent */
        ops[i]->status = DLOCK_UNAVAILABLE;
    return done <= RENEW_AT_ONCE && status != DLOCK_OK ? status : DLOCK_OK;
}
