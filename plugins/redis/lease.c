/* SPDX-License-Identifier: MIT */
/* Acquires and releases a name: each call is one script. */
#include "lease.h"
#include "config.h"
#include "lib/hex.h"
#include "lib/holder_text.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/reply.h"
#include "route.h"
#include "session.h"

#include <string.h>

#define ANY_HOLDER "*"                  /* instead of a token; see release.lua */
#define FENCE_MOST (INT64_MAX / 10 - 9) /* one more digit may overflow */

/* ---- trylock ---- */

/* A grant of a semaphore has its permit, too. */
enum { GRANT_ELEMENTS = 4, PERMIT_ELEMENTS = 5, BUSY_ELEMENTS = 6, OTHER_LIMIT_ELEMENTS = 2 };

/* The build zeroes variables on the stack. These have 2 and 8 KB, most of which is never used, and
 * each lock and each unlock has one: zeroing costs too much. */
#define NOT_ZEROED __attribute__((uninitialized))

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

    if (reply->type != REDIS_REPLY_STRING || *at < '1')
        return false;
    for (*fence = 0; *at >= '0' && *at <= '9' && *fence < FENCE_MOST; at++)
        *fence = 10 * *fence + (*at - '0');
    return *at == '\0';
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

static void grant_read(const redisReply *reply, int64_t ttl_ms, struct dlock_grant *grant)
{
    int64_t fence = 0;

    grant->fence_room = REDIS_FENCE_ROOM;
    if (fence_read(reply, &fence)) {
        grant->fence = (uint64_t)fence;
        grant->lease_ms = ttl_ms;
        grant->waiters = 0;
        return;
    }
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

static enum dlock_status try_run(struct redis_session *session, const struct dlock_request *req,
                                 const char *channel, redisReply **reply,
                                 char promotion[REDIS_REPLID_SIZE], struct dlock_grant *grant,
                                 struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    NOT_ZEROED struct resp_keys keys;
    NOT_ZEROED struct redis_call call;
    NOT_ZEROED char text[DL_HOLDER_TEXT_MAX];
    char token[RESP_HEX_SIZE], mode[RESP_DIGITS], ttl[RESP_DIGITS], waiter_ttl[RESP_DIGITS];

    resp_keys_make(&keys, &session->config, req->name, req->name_len);
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    redis_call_begin(&call, REDIS_SCRIPT_ACQUIRE, &keys, 1, try_validate);
    call.ttl_ms = req->ttl_ms;
    call.expects = (req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0;
    resp_command_text(&call.command, token);
    resp_command_text(&call.command, mode_text(mode, req));
    resp_command_text(&call.command, resp_command_number(ttl, req->ttl_ms));
    resp_command_text(&call.command, try_what(req));
    resp_command_text(&call.command, resp_command_number(waiter_ttl, session->waiter_lease_ms));
    resp_command_text(&call.command, channel);
    resp_command_add(&call.command, text, dl_holder_text_make(text, req));
    status = redis_route_run(session, &keys, &call, req->deadline_ns, reply, err);
    if (status == DLOCK_BUSY) {
        grant->holder_ms = call.guard_left_ms;
        grant->flags |= DLOCK_GRANT_UNREPORTED;
    }
    (void)snprintf(promotion, REDIS_REPLID_SIZE, "%.*s", (int)strcspn(call.seen, " "), call.seen);
    return status;
}

enum dlock_status redis_lease_trylock(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct redis_session *session = self;
    const char *channel = "-";
    char promotion[REDIS_REPLID_SIZE];
    redisReply *reply = NULL;
    enum dlock_status status = resp_keys_refuse(&session->config, req->name, req->name_len, err);

    if (status != DLOCK_OK)
        return status;
    if (req->mode == DLOCK_SHARED && session->config.raw)
        return resp_error_fail(&session->config, err, DLOCK_UNSUPPORTED,
                               "no shared mode with key=raw: other programs would not see it");
    status =
        resp_guard_judge_ttl(REDIS_ORIGIN, redis_pool_guard_ms(&session->pool), req->ttl_ms, err);
    if (status != DLOCK_OK)
        return status;
    if ((req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0) {
        channel = session->subscriber.channel;
        if (!redis_waiter_expect(&session->subscriber, req))
            return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for a waiter");
    }
    status = try_run(session, req, channel, &reply, promotion, grant, err);
    if (status != DLOCK_OK)
        return status;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == OTHER_LIMIT_ELEMENTS) {
        status = resp_error_fail(&session->config, err, DLOCK_CONFIG, DLOCK_LIMITS_DIFFER,
                                 (unsigned)number_at(reply, 1), dlock_request_limit(req));
    } else if (is_grant(reply)) {
        grant_read(reply, req->ttl_ms, grant);
        redis_waiter_free(req->attempt);
    } else {
        status = DLOCK_BUSY;
        busy_read(session, reply, req->attempt, promotion, grant);
    }
    atomic_store(&session->pool.contended, status == DLOCK_BUSY || grant->waiters > 0);
    freeReplyObject(reply);
    return status;
}

/* ---- unlock, break ---- */

static bool release_validate(const struct redis_call *call, const redisReply *reply)
{
    int64_t freed = 0;

    (void)call;
    if (reply->type == REDIS_REPLY_INTEGER)
        return true;
    return resp_reply_array(reply, 2) && resp_reply_int(reply, 0, 0, 1, &freed) &&
           resp_reply_text(reply, 1) != NULL;
}

/* Waiters ask by themselves, too, so that one line of log is enough. */
static void passed_on(struct redis_session *session, const redisReply *failure)
{
    char text[128], line[400];

    if (failure->len == 0 || atomic_exchange(&session->failure_reported, true))
        return;
    resp_error_text(text, sizeof text, failure);
    (void)snprintf(line, sizeof line,
                   "%s: a name was released, and its waiters have to ask for it: %s",
                   session->config.endpoint, text);
    session->host->log(session->host->ctx, 1, line);
}

static enum dlock_status release(struct redis_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *token, const char *what,
                                 int64_t deadline_ns, int64_t *freed, struct dlock_error *err)
{
    NOT_ZEROED struct resp_keys keys;
    NOT_ZEROED struct redis_call call;
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    resp_keys_make(&keys, &session->config, name, name_len);
    redis_call_begin(&call, REDIS_SCRIPT_RELEASE, &keys, 1, release_validate);
    resp_command_text(&call.command, token);
    resp_command_text(&call.command, what);
    resp_command_text(&call.command, call.guarded);
    status = redis_route_run(session, &keys, &call, deadline_ns, &reply, err);
    if (status != DLOCK_OK)
        return status;
    *freed = 1;
    if (reply->type == REDIS_REPLY_ARRAY) {
        *freed = number_at(reply, 0);
        passed_on(session, reply->element[1]);
    }
    freeReplyObject(reply);
    return status;
}

static enum dlock_status keep(struct redis_session *session, const struct dlock_request *req,
                              const char *token, int64_t *kept, struct dlock_error *err)
{
    NOT_ZEROED struct resp_keys keys;
    NOT_ZEROED struct redis_call call;
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    char keep_ms[RESP_DIGITS];

    resp_keys_make(&keys, &session->config, req->name, req->name_len);
    redis_call_begin(&call, REDIS_SCRIPT_KEEP, &keys, 1, release_validate);
    resp_command_text(&call.command, token);
    resp_command_text(&call.command, resp_command_number(keep_ms, dlock_request_keep_ms(req)));
    status = redis_route_run(session, &keys, &call, req->deadline_ns, &reply, err);
    if (status != DLOCK_OK)
        return status;
    *kept = reply->type != REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return DLOCK_OK;
}

enum dlock_status redis_lease_unlock(void *self, const struct dlock_request *req,
                                     struct dlock_error *err)
{
    struct redis_session *session = self;
    char token[RESP_HEX_SIZE];
    int64_t freed = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    redis_waiter_free(req->attempt); /* [UNL-4] */
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    if (dlock_request_keep_ms(req) > 0)
        status = keep(session, req, token, &freed, err);
    else
        status = release(session, req->name, req->name_len, token, "UNLOCK", req->deadline_ns,
                         &freed, err);
    if (status == DLOCK_OK && freed == 0)
        return resp_error_fail(&session->config, err, DLOCK_LOST,
                               "the name is not held by this token");
    return status;
}

enum dlock_status redis_lease_dequeue(void *self, const struct dlock_request *req,
                                      struct dlock_error *err)
{
    struct redis_session *session = self;
    char token[RESP_HEX_SIZE];
    int64_t freed = 0;

    redis_waiter_free(req->attempt);
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    return release(session, req->name, req->name_len, token, "DEQUEUE", req->deadline_ns, &freed,
                   err);
}

enum dlock_status redis_lease_break(void *self, const unsigned char *name, uint32_t name_len,
                                    const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    struct redis_session *session = self;
    int64_t freed = 0;
    enum dlock_status status = resp_keys_refuse(&session->config, name, name_len, err);

    if (status == DLOCK_OK && (owner == NULL || strcmp(owner, ANY_HOLDER) != 0))
        status = release(session, name, name_len, owner != NULL ? owner : ANY_HOLDER, "BREAK",
                         deadline_ns, &freed, err);
    if (status == DLOCK_OK && freed == 0)
        return resp_error_fail(&session->config, err, DLOCK_NOT_HELD,
                               owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
