/* SPDX-License-Identifier: MIT */
/* Renews leases: one script for each RENEW_AT_ONCE of them. */
#include "renew.h"
#include "lib/text.h"
#include "redis/call/route.h"
#include "redis/servers/cluster.h"
#include "redis/servers/session.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/reply.h"
#include "waiter.h"

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
    return resp_guard_ttl_ms(session->config.restart_guard_ms, req->ttl_ms);
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

static bool adopts(const struct dlock_lease_op *op)
{
    return (op->req->flags & DLOCK_REQ_ADOPT) != 0;
}

static const char *becomes(const struct dlock_lease_op *op)
{
    if (adopts(op))
        return "A";
    return (op->req->flags & DLOCK_REQ_DOWNGRADE) != 0 ? "D" : "-";
}

/* The leases for the next script. An adoption has one for itself: a server that refuses it may
 * still renew the others. */
static size_t batch_size(struct dlock_lease_op *const *ops, size_t n)
{
    size_t size = 0;

    while (size < n && !adopts(ops[size]))
        size++;
    return size > 0 ? size : 1;
}

static void batch_fill(struct batch *batch, const struct redis_session *session,
                       struct dlock_lease_op *const *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        resp_keys_make(&batch->keys[i], &session->config, ops[i]->req->name, ops[i]->req->name_len);
    redis_call_begin(&batch->call, REDIS_SCRIPT_RENEW, batch->keys, n, renew_validate);
    batch->call.expects = n;
    if (adopts(ops[0]))
        batch->call.kind = REDIS_CALL_ADOPTS;
    for (size_t i = 0; i < n; i++) {
        const struct dlock_request *req = ops[i]->req;

        if (adopts(ops[i]))
            ((struct redis_slot *)req->attempt)->adopted = true;
        dl_hex_encode(batch->token[i], req->token, DLOCK_TOKEN_SIZE);
        resp_command_text(&batch->call.command, batch->token[i]);
        resp_command_text(&batch->call.command,
                          resp_command_number(batch->ttl[i], ttl_of(session, req)));
        resp_command_text(&batch->call.command, becomes(ops[i]));
    }
    resp_command_text(&batch->call.command, batch->call.sent.guarded);
}

static enum dlock_status batch_run(struct redis_session *session, struct batch *batch,
                                   struct dlock_lease_op *const *ops, size_t n, int64_t deadline_ns,
                                   struct dlock_error *err)
{
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    batch_fill(batch, session, ops, n);
    status =
        renew_error(redis_route_run(session, batch->keys, &batch->call, deadline_ns, &reply, err));
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

/* ---- in a cluster: a call for each name ---- */

struct member {
    unsigned owner; /* of redis_cluster_owner */
    bool done;
};

/* Whether the next call may succeed: this one did, or was refused for its name. */
static bool goes_on(const struct redis_call *call, enum dlock_status status)
{
    return status == DLOCK_OK || call->outcome.of_name ||
           call->outcome.redirect.kind != REDIS_REDIRECT_NONE || call->asking;
}

/* The first of the members, and all others of its server. After a call that fails the rest is not
 * sent. */
static void shard_renew(struct redis_session *session, struct batch *batch,
                        struct dlock_lease_op *const *ops, struct member *members, size_t n,
                        int64_t deadline_ns, struct dlock_error *err)
{
    bool answers = true;

    for (size_t i = 0; i < n; i++) {
        if (members[i].done || members[i].owner != members[0].owner)
            continue;
        members[i].done = true;
        if (answers)
            answers =
                goes_on(&batch->call, batch_run(session, batch, ops + i, 1, deadline_ns, err));
        else
            ops[i]->status = DLOCK_UNAVAILABLE;
    }
}

static size_t members_find(struct redis_session *session, struct batch *batch,
                           struct dlock_lease_op *const *ops, struct member *members, size_t n)
{
    struct resp_keys *key = &batch->keys[0];
    size_t shards = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        resp_keys_make(key, &session->config, ops[i]->req->name, ops[i]->req->name_len);
        members[i].owner =
            redis_cluster_owner(session->cluster, redis_slot(key->bytes[0], key->lens[0]));
        while (k < i && members[k].owner != members[i].owner)
            k++;
        shards += k == i;
    }
    return shards;
}

/* Each server has an equal share of the time, and those that failed before come last: a dead server
 * delays the names of others by its share once. */
static enum dlock_status cluster_renew(struct redis_session *session, struct batch *batch,
                                       struct dlock_lease_op *const *ops, size_t n,
                                       int64_t deadline_ns, struct dlock_error *err)
{
    struct member *members = calloc(n + 1, sizeof *members);
    size_t shards = 0;

    if (members == NULL)
        return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for renewals");
    shards = members_find(session, batch, ops, members, n);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            int64_t now_ns = session->host->now_ns(session->host->ctx);

            if (members[i].done ||
                (pass == 0 && !redis_cluster_answers(session->cluster, members[i].owner)))
                continue;
            shard_renew(session, batch, ops + i, members + i, n - i,
                        now_ns + (deadline_ns - now_ns) / (int64_t)(shards > 0 ? shards-- : 1),
                        err);
        }
    }
    free(members);
    return DLOCK_OK;
}

enum dlock_status redis_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                              int64_t deadline_ns, struct dlock_error *err)
{
    struct redis_session *session = self;
    size_t at_once = session->config.all_keys ? 1 : RENEW_AT_ONCE;
    size_t most = n < at_once ? n : at_once;
    struct batch *batch = malloc(sizeof *batch + most * sizeof batch->keys[0]);
    enum dlock_status status = DLOCK_OK;
    size_t done = 0;

    if (batch == NULL)
        return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for renewals");
    if (session->cluster != NULL) {
        status = cluster_renew(session, batch, ops, n, deadline_ns, err);
        free(batch);
        return status;
    }
    while (done < n && (status == DLOCK_OK || batch->call.outcome.of_name)) {
        size_t some = batch_size(ops + done, n - done < most ? n - done : most);

        status = batch_run(session, batch, ops + done, some, deadline_ns, err);
        done += some;
    }
    free(batch);
    for (size_t i = done; i < n; i++) /* the connection failed: these were not sent */
        ops[i]->status = DLOCK_UNAVAILABLE;
    return done <= at_once && status != DLOCK_OK ? status : DLOCK_OK;
}
