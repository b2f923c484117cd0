/* SPDX-License-Identifier: MIT */
/* The holders of one name, or of several. */
#include "inspect.h"
#include "lib/holder_text.h"
#include "redis/call/route.h"
#include "redis/link/config.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <stdlib.h>
#include <string.h>

#define PAGE             200 /* readers in one answer */
#define FEW              8   /* a name with this number of readers is inspected alone */
#define HOLDER_ELEMENTS  6
#define ANSWER_MAX_BYTES ((size_t)2 * 1024 * 1024) /* FEW holders with data of each name */

/* "x", "s", or the limit and the permit of a semaphore; a limit of 1 is that of a kept lock. */
static bool mode_read(const char *text, struct dlock_holder *lease)
{
    char *end = NULL;
    unsigned long limit = strtoul(text, &end, 10);
    unsigned long permit = limit > 0 && *end == ' ' ? strtoul(end + 1, &end, 10) : 0;

    lease->mode = text[0] == 's' ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    lease->limit = limit > 1 ? (uint32_t)limit : 0;
    lease->permit = (uint32_t)permit;
    if (limit == 0)
        return strcmp(text, "x") == 0 || strcmp(text, "s") == 0;
    return limit <= REDIS_LIMIT_MAX && permit < limit && *end == '\0';
}

/* The i-th holder of an answer of inspect.lua. False: it is malformed. */
static bool holder_read(const redisReply *reply, size_t i, struct dlock_holder *lease)
{
    size_t at = 1 + i * HOLDER_ELEMENTS;
    const redisReply *mode = resp_reply_text(reply, at);
    const redisReply *owner = resp_reply_text(reply, at + 1);
    const redisReply *label = resp_reply_text(reply, at + 5);
    int64_t fence = 0;

    if (mode == NULL || owner == NULL || label == NULL ||
        !resp_reply_int(reply, at + 2, -1, INT64_MAX, &lease->remaining_ms) ||
        !resp_reply_int(reply, at + 3, 0, INT64_MAX, &fence) ||
        !resp_reply_int(reply, at + 4, INT64_MIN, INT64_MAX, &lease->held_ms))
        return false;
    if (!mode_read(mode->str, lease))
        return false;
    lease->kept = mode->str[0] != 'x' && owner->str[0] == 'k';
    lease->owner = lease->kept != 0 ? "" : owner->str;
    dl_holder_text_read(lease, label->str, label->len);
    if (lease->kept != 0) { /* C24 */
        lease->data = NULL;
        lease->data_len = 0;
    }
    lease->fence = (uint64_t)fence;
    lease->fence_room = REDIS_FENCE_ROOM;
    if (lease->held_ms < -1) /* the server's clock went back */
        lease->held_ms = 0;
    return true;
}

static size_t holders_count(const redisReply *reply)
{
    return (reply->elements - 1) / HOLDER_ELEMENTS;
}

static bool name_validate(const redisReply *reply)
{
    struct dlock_holder lease;
    int64_t waiters = 0;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        (reply->elements - 1) % HOLDER_ELEMENTS != 0 ||
        !resp_reply_int(reply, 0, 0, UINT32_MAX - 1, &waiters))
        return false;
    for (size_t i = 0; i < holders_count(reply); i++)
        if (!holder_read(reply, i, &lease))
            return false;
    return true;
}

/* call->expects: the number of names. */
static bool names_validate(const struct redis_call *call, const redisReply *reply)
{
    if (!resp_reply_array(reply, call->expects))
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (!name_validate(reply->element[i]))
            return false;
    return true;
}

static void holders_tell(const redisReply *reply, struct dlock_holder *lease, dlock_holder_fn *fn,
                         void *arg, bool *stopped)
{
    lease->waiters = (uint32_t)reply->element[0]->integer;
    for (size_t i = 0; !*stopped && i < holders_count(reply); i++) {
        (void)holder_read(reply, i, lease);
        *stopped = fn(arg, lease) != 0;
    }
}

/* A page of the readers of each name. */
struct page {
    int64_t most, passed;
};

static enum dlock_status page_inspect(struct redis_session *session, const struct resp_keys *keys,
                                      size_t n, struct page page, int64_t deadline_ns,
                                      redisReply **reply, bool *foreign, struct dlock_error *err)
{
    struct redis_call call;
    char most[RESP_DIGITS], from[RESP_DIGITS], names[RESP_DIGITS];
    enum dlock_status status = DLOCK_INTERNAL;

    redis_call_begin(&call, REDIS_SCRIPT_INSPECT, keys, n, names_validate);
    resp_command_text(&call.command, resp_command_number(most, page.most));
    resp_command_text(&call.command, resp_command_number(from, page.passed));
    resp_command_text(&call.command, resp_command_number(names, (int64_t)n));
    call.reply_max = ANSWER_MAX_BYTES;
    call.expects = n;
    status = redis_route_run(session, keys, &call, deadline_ns, reply, err);
    *foreign = call.outcome.foreign;
    return status;
}

enum dlock_status redis_inspect_name(struct redis_session *session, const unsigned char *name,
                                     uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                     void *arg, struct redis_inspected *inspected,
                                     struct dlock_error *err)
{
    struct dlock_holder lease = {.struct_size = sizeof lease, .name = name, .name_len = name_len};
    struct page page = {.most = PAGE};
    struct resp_keys keys;
    enum dlock_status status = DLOCK_OK;
    size_t count = PAGE;

    resp_keys_make(&keys, &session->config, name, name_len);
    for (; status == DLOCK_OK && !inspected->stopped && count >= PAGE; page.passed += PAGE) {
        redisReply *reply = NULL;

        status =
            page_inspect(session, &keys, 1, page, deadline_ns, &reply, &inspected->foreign, err);
        count = status == DLOCK_OK ? holders_count(reply->element[0]) : 0;
        if (status == DLOCK_OK)
            holders_tell(reply->element[0], &lease, fn, arg, &inspected->stopped);
        freeReplyObject(reply);
    }
    return status;
}

enum dlock_status redis_inspect_names(struct redis_session *session,
                                      const struct dlock_holder *names, size_t n,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct redis_inspected *inspected, struct dlock_error *err)
{
    const struct page page = {.most = FEW};
    struct resp_keys *keys = calloc(n, sizeof *keys);
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (keys == NULL)
        return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for a list");
    for (size_t i = 0; i < n; i++)
        resp_keys_make(&keys[i], &session->config, names[i].name, names[i].name_len);
    status = page_inspect(session, keys, n, page, deadline_ns, &reply, &inspected->foreign, err);
    free(keys);
    for (size_t i = 0; i < n && status == DLOCK_OK && !inspected->stopped; i++) {
        struct dlock_holder lease = names[i];

        if (holders_count(reply->element[i]) < FEW)
            holders_tell(reply->element[i], &lease, fn, arg, &inspected->stopped);
        else
            status = redis_inspect_name(session, lease.name, lease.name_len, deadline_ns, fn, arg,
                                        inspected, err);
    }
    if (reply != NULL) /* set since then by the inspection of a name alone */
        inspected->foreign = false;
    freeReplyObject(reply);
    return status;
}

enum dlock_status redis_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                struct dlock_error *err)
{
    struct redis_session *session = self;
    struct redis_inspected inspected = {.stopped = false};
    enum dlock_status status = resp_keys_refuse(&session->config, name, name_len, err);

    if (status != DLOCK_OK)
        return status;
    return redis_inspect_name(session, name, name_len, deadline_ns, fn, arg, &inspected, err);
}
