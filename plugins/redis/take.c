/* SPDX-License-Identifier: MIT */
#include "take.h"
#include "lib/hex.h"
#include "redis/link/config.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/reply.h"
#include "waiter.h"

#include <string.h>

/* A grant of a semaphore has its permit, too. */
enum { GRANT_ELEMENTS = 4, PERMIT_ELEMENTS = 5, BUSY_ELEMENTS = 6, OTHER_LIMIT_ELEMENTS = 2 };

struct bounds {
    int64_t least, most;
};

static bool numbers_fit(const redisReply *reply, const struct bounds *bounds, size_t count)
{
    int64_t number = 0;

    if (!resp_reply_array(reply, count))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!resp_reply_int(reply, i, bounds[i].least, bounds[i].most, &number))
            return false;
    return true;
}

/* The answer of acquire_free.lua. */
static bool fence_read(const redisReply *reply, int64_t *fence)
{
    const char *at = reply->str;

    return reply->type == REDIS_REPLY_STRING && resp_reply_digits(&at, fence) && *at == '\0';
}

/* call->expects: 1 if a queue entry was asked for. */
static bool try_validate(const struct redis_call *call, const redisReply *reply)
{
    const struct bounds grant[PERMIT_ELEMENTS] = {
        {1, 1}, {1, INT64_MAX}, {1, RESP_LEASE_MAX_MS}, {0, UINT32_MAX - 1}, {0, REDIS_LIMIT_MAX}};
    const struct bounds other_limit[OTHER_LIMIT_ELEMENTS] = {{2, 2}, {1, REDIS_LIMIT_MAX}};
    const struct bounds busy[BUSY_ELEMENTS] = {
        {0, 0},          {-1, INT64_MAX}, {0, UINT32_MAX - 1}, {0, (int64_t)call->expects},
        {0, UINT32_MAX}, {0, INT64_MAX}};
    int64_t fence = 0;

    return fence_read(reply, &fence) || numbers_fit(reply, grant, GRANT_ELEMENTS) ||
           numbers_fit(reply, grant, PERMIT_ELEMENTS) ||
           numbers_fit(reply, other_limit, OTHER_LIMIT_ELEMENTS) ||
           numbers_fit(reply, busy, BUSY_ELEMENTS);
}

static int64_t number_at(const redisReply *reply, size_t i)
{
    return reply->element[i]->integer;
}

static bool is_grant(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->elements == GRANT_ELEMENTS ||
           reply->elements == PERMIT_ELEMENTS;
}

/* Of a name that nobody wanted. */
static void grant_set(struct dlock_grant *grant, int64_t fence, int64_t ttl_ms)
{
    grant->fence_room = REDIS_FENCE_ROOM;
    grant->fence = (uint64_t)fence;
    grant->lease_ms = ttl_ms;
    grant->waiters = 0;
}

static void grant_read(const redisReply *reply, int64_t ttl_ms, struct dlock_grant *grant)
{
    int64_t fence = 0;

    if (fence_read(reply, &fence)) {
        grant_set(grant, fence, ttl_ms);
        return;
    }
    grant->fence_room = REDIS_FENCE_ROOM;
    grant->fence = (uint64_t)number_at(reply, 1);
    grant->lease_ms = resp_reply_lease_ms(number_at(reply, 2), ttl_ms);
    grant->waiters = (uint32_t)number_at(reply, 3);
    if (reply->elements == PERMIT_ELEMENTS && DLOCK_HAS(grant, permit))
        grant->permit = (uint32_t)number_at(reply, 4);
}

/* Reads whether there is a queue entry, and the fence above which a grant to it counts. */
static void busy_read(struct redis_session *session, const redisReply *reply,
                      struct redis_slot *slot, const char *promotion, struct dlock_grant *grant)
{
    grant->holder_ms = number_at(reply, 1);
    grant->waiters = (uint32_t)number_at(reply, 2);
    grant->queue_position = (uint32_t)number_at(reply, 4);
    if (number_at(reply, 3) == 0) {
        grant->flags |= DLOCK_GRANT_UNREPORTED;
        return;
    }
    grant->flags |= DLOCK_GRANT_QUEUED;
    grant->fence = (uint64_t)number_at(reply, 5);
    grant->lease_ms = session->waiter_lease_ms;
    redis_waiter_queued(&session->subscriber, slot, grant->fence, promotion);
}

static const char *mode_text(char digits[RESP_DIGITS], const struct dlock_request *req)
{
    if (dlock_request_limit(req) > 1)
        return resp_command_number(digits, dlock_request_limit(req));
    return req->mode == DLOCK_SHARED ? "s" : "x";
}

static const char *try_what(const struct dlock_request *req)
{
    if ((req->flags & DLOCK_REQ_REFRESH) != 0)
        return "REFRESH";
    return (req->flags & DLOCK_REQ_ENQUEUE) != 0 ? "ENQUEUE" : "TRY";
}

/* A request for a queue entry is answered on a channel, too. */
static enum dlock_status channel_choose(struct redis_session *session,
                                        const struct dlock_request *req, const char **channel,
                                        struct dlock_error *err)
{
    *channel = "-";
    if ((req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) == 0)
        return DLOCK_OK;
    *channel = session->subscriber.channel;
    if (redis_waiter_expect(&session->subscriber, req))
        return DLOCK_OK;
    return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for a waiter");
}

enum dlock_status redis_take_prepare(const struct redis_session *session,
                                     const struct dlock_request *req, struct redis_take *take,
                                     struct dlock_error *err)
{
    enum dlock_status status = resp_keys_refuse(&session->config, req->name, req->name_len, err);

    if (status != DLOCK_OK)
        return status;
    if (req->mode == DLOCK_SHARED && session->config.raw)
        return resp_error_fail(&session->config, err, DLOCK_UNSUPPORTED,
                               "no shared mode with key=raw: other programs would not see it");
    status = resp_guard_judge_ttl(REDIS_ORIGIN, session->config.restart_guard_ms, req->ttl_ms, err);
    if (status != DLOCK_OK)
        return status;
    resp_keys_make(&take->keys, &session->config, req->name, req->name_len);
    dl_hex_encode(take->token, req->token, DLOCK_TOKEN_SIZE);
    (void)resp_command_number(take->ttl, req->ttl_ms);
    take->text_len = dl_holder_text_make(take->text, req);
    return DLOCK_OK;
}

enum dlock_status redis_take_begin(struct redis_session *session, const struct dlock_request *req,
                                   struct redis_take *take, struct dlock_error *err)
{
    const char *channel = NULL;
    enum dlock_status status = channel_choose(session, req, &channel, err);

    if (status != DLOCK_OK)
        return status;
    redis_call_begin(&take->call, REDIS_SCRIPT_ACQUIRE, &take->keys, 1, try_validate);
    take->call.expects = (req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0;
    resp_command_text(&take->call.command, take->token);
    resp_command_text(&take->call.command, mode_text(take->mode, req));
    resp_command_text(&take->call.command, take->ttl);
    resp_command_text(&take->call.command, try_what(req));
    resp_command_text(&take->call.command,
                      resp_command_number(take->waiter_ttl, session->waiter_lease_ms));
    resp_command_text(&take->call.command, channel);
    resp_command_add(&take->call.command, take->text, take->text_len);
    return DLOCK_OK;
}

bool redis_take_is_simple(const struct dlock_request *req)
{
    return req->mode == DLOCK_EXCLUSIVE && dlock_request_limit(req) <= 1 &&
           (req->flags & DLOCK_REQ_REFRESH) == 0;
}

void redis_take_granted(struct redis_session *session, const struct dlock_request *req,
                        int64_t fence, struct dlock_grant *grant)
{
    grant_set(grant, fence, req->ttl_ms);
    redis_waiter_free(req->attempt);
    atomic_store(&session->pool.contended, false);
}

/* The answer has no error. */
static enum dlock_status answer_read(struct redis_session *session, const struct dlock_request *req,
                                     const struct redis_take *take, const redisReply *reply,
                                     struct dlock_grant *grant, struct dlock_error *err)
{
    char promotion[REDIS_REPLID_SIZE] = "";

    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == OTHER_LIMIT_ELEMENTS)
        return resp_error_fail(&session->config, err, DLOCK_CONFIG, DLOCK_LIMITS_DIFFER,
                               (unsigned)number_at(reply, 1), dlock_request_limit(req));
    if (is_grant(reply)) {
        grant_read(reply, req->ttl_ms, grant);
        redis_waiter_free(req->attempt);
        return DLOCK_OK;
    }
    if (take->call.sent.script == take->call.with_guard) /* [FO-9] */
        (void)snprintf(promotion, sizeof promotion, "%.*s", (int)strcspn(take->call.sent.seen, " "),
                       take->call.sent.seen);
    busy_read(session, reply, req->attempt, promotion, grant);
    return DLOCK_BUSY;
}

enum dlock_status redis_take_end(struct redis_session *session, const struct dlock_request *req,
                                 const struct redis_take *take, enum dlock_status status,
                                 redisReply *reply, struct dlock_grant *grant,
                                 struct dlock_error *err)
{
    if (status == DLOCK_BUSY) {
        grant->holder_ms = take->call.outcome.guard_left_ms;
        grant->flags |= DLOCK_GRANT_UNREPORTED;
    }
    if (status != DLOCK_OK)
        return status;
    status = answer_read(session, req, take, reply, grant, err);
    atomic_store(&session->pool.contended, status == DLOCK_BUSY || grant->waiters > 0);
    freeReplyObject(reply);
    return status;
}
