/* SPDX-License-Identifier: MIT */
/* Taking, keeping and giving back a name: each one script. */
#include "redis.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MAX_MS  (INT64_C(400) * 24 * 3600 * 1000)
#define RENEW_AT_ONCE 60 /* leases in one script; other clients wait meanwhile */
#define DIGITS        24 /* of a number as text */

static const char *ms_text(char *out, int64_t ms)
{
    (void)snprintf(out, DIGITS, "%" PRId64, ms);
    return out;
}

static enum dlock_status nonsense(const struct redis_session *session, struct dlock_error *err)
{
    return redis_fail(&session->place, err, DLOCK_PROTOCOL, "not an answer to this question");
}

/* ---- trylock ---- */

static enum dlock_status grant_read(const struct redis_session *session, const redisReply *reply,
                                    struct dlock_grant *grant, struct dlock_error *err)
{
    int64_t fence = 0, lease = 0, waiters = 0;

    if (!redis_reply_array(reply, 4) || !redis_reply_int(reply, 1, 1, INT64_MAX, &fence) ||
        !redis_reply_int(reply, 2, 1, LEASE_MAX_MS, &lease) ||
        !redis_reply_int(reply, 3, 0, UINT32_MAX - 1, &waiters))
        return nonsense(session, err);
    grant->fence = (uint64_t)fence;
    grant->fence_room = REDIS_FENCE_ROOM;
    grant->lease_ms = lease;
    grant->waiters = (uint32_t)waiters;
    return DLOCK_OK;
}

static enum dlock_status busy_read(const struct redis_session *session, const redisReply *reply,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    int64_t holder = -1, waiters = 0;

    if (!redis_reply_array(reply, 6) || !redis_reply_int(reply, 1, -1, INT64_MAX, &holder) ||
        !redis_reply_int(reply, 2, 0, UINT32_MAX - 1, &waiters))
        return nonsense(session, err);
    grant->holder_ms = holder;
    grant->waiters = (uint32_t)waiters;
    return DLOCK_BUSY;
}

/* A server that was started a moment ago may have forgotten what it granted. */
static enum dlock_status guarded(const struct redis_session *session, struct dlock_error *err)
{
    int64_t left_ns = session->guard_until_ns - session->host->now_ns(session->host->ctx);

    if (left_ns <= 0)
        return DLOCK_OK;
    return redis_fail(&session->place, err, DLOCK_UNAVAILABLE,
                      "no new locks for %lld ms: was up for %lld s, restart_guard is %lld s",
                      (long long)(left_ns / REDIS_NS_PER_MS + 1),
                      (long long)session->facts.uptime_s,
                      (long long)session->place.restart_guard_ms / 1000);
}

enum dlock_status redis_trylock(void *self, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err)
{
    struct redis_session *session = self;
    struct redis_keys keys;
    struct redis_call call;
    char token[REDIS_HEX_SIZE], ttl[DIGITS];
    redisReply *reply = NULL;
    int64_t taken = 0;
    enum dlock_status status = guarded(session, err);

    if (status != DLOCK_OK)
        return status;
    if (req->mode == DLOCK_SHARED && (session->caps & DLOCK_CAP_RWLOCK) == 0)
        return redis_fail(&session->place, err, DLOCK_UNSUPPORTED,
                          "no shared mode with key=raw: other programs would not see it");
    redis_keys_make(&keys, &session->place, req->name, req->name_len);
    redis_hex(token, req->token);
    redis_call_begin(&call, REDIS_SCRIPT_ACQUIRE, REDIS_KEY_COUNT);
    redis_call_keys(&call, &keys);
    resp_command_text(&call.command, token);
    resp_command_text(&call.command, req->mode == DLOCK_SHARED ? "s" : "x");
    resp_command_text(&call.command, ms_text(ttl, req->ttl_ms));
    resp_command_text(&call.command, "TRY");
    resp_command_text(&call.command, "0");
    resp_command_text(&call.command, "-");
    resp_command_text(&call.command, req->label != NULL ? req->label : "");
    status = redis_call_run(&session->link, &call, req->deadline_ns, &reply, err);
    if (status != DLOCK_OK)
        return status;
    if (!redis_reply_array(reply, 4) || !redis_reply_int(reply, 0, 0, 1, &taken))
        status = nonsense(session, err);
    else if (taken == 1)
        status = grant_read(session, reply, grant, err);
    else
        status = busy_read(session, reply, grant, err);
    freeReplyObject(reply);
    return status;
}

/* ---- renew ---- */

/* Its lease is not ours to end: whatever hinders this renewal, the next one may work. */
static enum dlock_status renew_error(enum dlock_status status)
{
    return status == DLOCK_CONFIG ? DLOCK_UNAVAILABLE : status;
}

static void renewed(const struct redis_session *session, const redisReply *reply,
                    struct dlock_lease_op *op, struct dlock_error *err)
{
    int64_t lease = 0, waiters = 0;

    if (reply->type == REDIS_REPLY_ERROR) {
        if (redis_error_is(reply, "WRONGTYPE"))
            op->status = redis_fail(&session->place, err, DLOCK_LOST,
                                    "the name's key is used by something else");
        else
            op->status = renew_error(redis_error(&session->place, reply, err));
        return;
    }
    if (!redis_reply_array(reply, 2) || !redis_reply_int(reply, 0, 0, LEASE_MAX_MS, &lease) ||
        !redis_reply_int(reply, 1, 0, UINT32_MAX - 1, &waiters)) {
        op->status = nonsense(session, err);
        return;
    }
    if (lease == 0) {
        op->status =
            redis_fail(&session->place, err, DLOCK_LOST, "the name is not held by this token");
        return;
    }
    op->grant.lease_ms = lease;
    op->grant.waiters = (uint32_t)waiters;
    op->status = DLOCK_OK;
}

/* What a call needs to stay where it is until it was sent. */
struct batch {
    struct redis_call call;
    struct redis_keys keys[RENEW_AT_ONCE];
    char token[RENEW_AT_ONCE][REDIS_HEX_SIZE];
    char ttl[RENEW_AT_ONCE][DIGITS];
};

static void batch_fill(struct batch *batch, const struct redis_session *session,
                       const struct dlock_lease_op *ops, size_t n)
{
    redis_call_begin(&batch->call, REDIS_SCRIPT_RENEW, (unsigned)n * REDIS_KEY_COUNT);
    for (size_t i = 0; i < n; i++) {
        redis_keys_make(&batch->keys[i], &session->place, ops[i].req->name, ops[i].req->name_len);
        redis_call_keys(&batch->call, &batch->keys[i]);
    }
    for (size_t i = 0; i < n; i++) {
        const struct dlock_request *req = ops[i].req;

        redis_hex(batch->token[i], req->token);
        resp_command_text(&batch->call.command, batch->token[i]);
        resp_command_text(&batch->call.command, ms_text(batch->ttl[i], req->ttl_ms));
        resp_command_text(&batch->call.command,
                          (req->flags & DLOCK_REQ_DOWNGRADE) != 0 ? "D" : "-");
    }
}

static enum dlock_status batch_run(struct redis_session *session, struct batch *batch,
                                   struct dlock_lease_op *ops, size_t n, int64_t deadline_ns,
                                   struct dlock_error *err)
{
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    batch_fill(batch, session, ops, n);
    status = renew_error(redis_call_run(&session->link, &batch->call, deadline_ns, &reply, err));
    if (status == DLOCK_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements != n)) {
        freeReplyObject(reply);
        status = nonsense(session, err);
    }
    if (status != DLOCK_OK) {
        for (size_t i = 0; i < n; i++)
            ops[i].status = status;
        return status;
    }
    for (size_t i = 0; i < n; i++)
        renewed(session, reply->element[i], &ops[i], err);
    freeReplyObject(reply);
    return DLOCK_OK;
}

enum dlock_status redis_renew(void *self, struct dlock_lease_op *ops, size_t n, int64_t deadline_ns,
                              struct dlock_error *err)
{
    struct redis_session *session = self;
    struct batch *batch = malloc(sizeof *batch);
    enum dlock_status status = DLOCK_OK;
    size_t done = 0;

    if (batch == NULL)
        return redis_fail(&session->place, err, DLOCK_NOMEM, "no memory for renewals");
    while (done < n && status == DLOCK_OK) {
        size_t some = n - done < RENEW_AT_ONCE ? n - done : RENEW_AT_ONCE;

        status = batch_run(session, batch, ops + done, some, deadline_ns, err);
        done += some;
    }
    free(batch);
    for (size_t i = done; i < n; i++) /* the connection is gone, and these were not sent */
        ops[i].status = DLOCK_UNAVAILABLE;
    return done <= RENEW_AT_ONCE && status != DLOCK_OK ? status : DLOCK_OK;
}

/* ---- unlock, break ---- */

static enum dlock_status release(struct redis_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *token, const char *what,
                                 int64_t deadline_ns, int64_t *freed, struct dlock_error *err)
{
    struct redis_keys keys;
    struct redis_call call;
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    redis_keys_make(&keys, &session->place, name, name_len);
    redis_call_begin(&call, REDIS_SCRIPT_RELEASE, REDIS_KEY_COUNT);
    redis_call_keys(&call, &keys);
    resp_command_text(&call.command, token);
    resp_command_text(&call.command, what);
    status = redis_call_run(&session->link, &call, deadline_ns, &reply, err);
    if (status != DLOCK_OK)
        return status;
    if (!redis_reply_array(reply, 2) || !redis_reply_int(reply, 0, 0, 1, freed))
        status = nonsense(session, err);
    freeReplyObject(reply);
    return status;
}

enum dlock_status redis_unlock(void *self, const struct dlock_request *req, struct dlock_error *err)
{
    struct redis_session *session = self;
    char token[REDIS_HEX_SIZE];
    int64_t freed = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    redis_hex(token, req->token);
    status =
        release(session, req->name, req->name_len, token, "UNLOCK", req->deadline_ns, &freed, err);
    if (status == DLOCK_OK && freed == 0)
        return redis_fail(&session->place, err, DLOCK_LOST, "the name is not held by this token");
    return status;
}

enum dlock_status redis_break(void *self, const unsigned char *name, uint32_t name_len,
                              const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    struct redis_session *session = self;
    int64_t freed = 0;
    enum dlock_status status = release(session, name, name_len, owner != NULL ? owner : "*",
                                       "BREAK", deadline_ns, &freed, err);

    if (status == DLOCK_OK && freed == 0)
        return redis_fail(&session->place, err, DLOCK_NOT_HELD,
                          owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
