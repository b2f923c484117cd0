/* SPDX-License-Identifier: MIT */
#include "lease.h"
#include "lib/text.h"
#include "redis/call/route.h"
#include "redis/link/config.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/reply.h"
#include "waiter.h"

#include <string.h>

/* ---- one try to acquire a name ---- */

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

/* The short answer of acquire.lua. */
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
    if (reply->elements == PERMIT_ELEMENTS)
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
    if (req->limit > 1)
        return resp_command_number(digits, req->limit);
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

enum dlock_status redis_lease_take_prepare(const struct redis_session *session,
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

enum dlock_status redis_lease_take_begin(struct redis_session *session,
                                         const struct dlock_request *req, struct redis_take *take,
                                         struct dlock_error *err)
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

bool redis_lease_take_is_simple(const struct dlock_request *req)
{
    return req->mode == DLOCK_EXCLUSIVE && req->limit <= 1 && (req->flags & DLOCK_REQ_REFRESH) == 0;
}

void redis_lease_take_granted(struct redis_session *session, const struct dlock_request *req,
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
                               (unsigned)number_at(reply, 1), req->limit);
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

enum dlock_status redis_lease_take_end(struct redis_session *session,
                                       const struct dlock_request *req,
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

/* ---- one release of a name ---- */

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

static void release_begin(struct redis_release *release, const char *token, const char *what)
{
    redis_call_begin(&release->call, REDIS_SCRIPT_RELEASE, &release->keys, 1, release_validate);
    resp_command_text(&release->call.command, token);
    resp_command_text(&release->call.command, what);
    resp_command_text(&release->call.command, release->call.sent.guarded);
}

static void release_call_begin(struct redis_session *session, const unsigned char *name,
                               uint32_t name_len, const char *token, const char *what,
                               struct redis_release *release)
{
    resp_keys_make(&release->keys, &session->config, name, name_len);
    release_begin(release, token, what);
}

static void keep_begin(const struct dlock_request *req, struct redis_release *release)
{
    redis_call_begin(&release->call, REDIS_SCRIPT_KEEP, &release->keys, 1, release_validate);
    resp_command_text(&release->call.command, release->token);
    resp_command_text(&release->call.command, resp_command_number(release->keep_ms, req->keep_ms));
}

void redis_lease_release_prepare(const struct redis_session *session,
                                 const struct dlock_request *req, struct redis_release *release)
{
    redis_waiter_free(req->attempt);
    resp_keys_make(&release->keys, &session->config, req->name, req->name_len);
    dl_hex_encode(release->token, req->token, DLOCK_TOKEN_SIZE);
}

/* Whether data are to end with the claim [C24]. Whose lease was adopted may have published some. */
static bool clears(const struct dlock_request *req)
{
    const struct redis_slot *slot = req->attempt;

    return req->data_len > 0 || slot->adopted;
}

void redis_lease_release_begin(const struct dlock_request *req, struct redis_release *release)
{
    if (req->keep_ms > 0)
        keep_begin(req, release);
    else
        release_begin(release, release->token, clears(req) ? "CLEAR" : "UNLOCK");
}

bool redis_lease_release_is_simple(const struct dlock_request *req)
{
    return req->keep_ms == 0 && req->mode == DLOCK_EXCLUSIVE && req->limit <= 1 && !clears(req);
}

static bool release_call_end(struct redis_session *session, const struct redis_release *release,
                             redisReply *reply)
{
    bool is_kept = release->call.kind == REDIS_CALL_KEEPS;
    bool is_list = reply->type == REDIS_REPLY_ARRAY;
    bool freed = !is_list || (!is_kept && reply->element[0]->integer != 0);

    if (is_list && !is_kept)
        passed_on(session, reply->element[1]);
    freeReplyObject(reply);
    return freed;
}

enum dlock_status redis_lease_release_end(struct redis_session *session,
                                          const struct redis_release *release,
                                          enum dlock_status status, redisReply *reply,
                                          struct dlock_error *err)
{
    if (status != DLOCK_OK || release_call_end(session, release, reply))
        return status;
    return resp_error_fail(&session->config, err, DLOCK_LOST, "the name is not held by this token");
}

/* ---- the slots: each call is one script ---- */

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
    enum dlock_status status = redis_lease_take_prepare(session, req, &take, err);

    if (status == DLOCK_OK)
        status = redis_lease_take_begin(session, req, &take, err);
    if (status != DLOCK_OK)
        return status;
    status = redis_route_run(session, &take.keys, &take.call, req->deadline_ns, &reply, err);
    return redis_lease_take_end(session, req, &take, status, reply, grant, err);
}

static enum dlock_status release(struct redis_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *token, const char *what,
                                 int64_t deadline_ns, bool *freed, struct dlock_error *err)
{
    NOT_ZEROED struct redis_release call;
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    release_call_begin(session, name, name_len, token, what, &call);
    status = redis_route_run(session, &call.keys, &call.call, deadline_ns, &reply, err);
    if (status == DLOCK_OK)
        *freed = release_call_end(session, &call, reply);
    return status;
}

enum dlock_status redis_lease_unlock(void *self, const struct dlock_request *req,
                                     struct dlock_error *err)
{
    struct redis_session *session = self;
    NOT_ZEROED struct redis_release call;
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    redis_lease_release_prepare(session, req, &call);
    redis_lease_release_begin(req, &call);
    status = redis_route_run(session, &call.keys, &call.call, req->deadline_ns, &reply, err);
    return redis_lease_release_end(session, &call, status, reply, err);
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
