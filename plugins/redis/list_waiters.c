/* SPDX-License-Identifier: MIT */
/* A page begins behind the number of the last waiter of the page before it, and not behind a count:
 * a waiter that leaves the queue in between hides no other waiter. */
#include "list_waiters.h"
#include "redis/call/route.h"
#include "redis/link/config.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE             200 /* waiters in one answer; other clients wait while the script runs */
#define WAITER_ELEMENTS  4
#define ANSWER_MAX_BYTES ((size_t)1024 * 1024)

static size_t waiters_count(const redisReply *reply)
{
    return (reply->elements - 1) / WAITER_ELEMENTS;
}

/* The i-th waiter of an answer of waiters.lua. False: it is malformed. */
static bool waiter_read(const redisReply *reply, size_t i, struct dlock_waiter *waiter)
{
    size_t at = 1 + i * WAITER_ELEMENTS;
    const redisReply *mode = resp_reply_text(reply, at);
    const redisReply *owner = resp_reply_text(reply, at + 1);
    const redisReply *label = resp_reply_text(reply, at + 2);

    if (mode == NULL || owner == NULL || label == NULL || mode->len == 0 ||
        !resp_reply_int(reply, at + 3, -1, INT64_MAX, &waiter->waited_ms))
        return false;
    waiter->mode = mode->str[0] == 's' ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    waiter->owner = owner->str;
    waiter->label = label->str;
    return strchr("xs", mode->str[0]) != NULL ? mode->len == 1 : strtoul(mode->str, NULL, 10) > 1;
}

static bool page_validate(const struct redis_call *call, const redisReply *reply)
{
    struct dlock_waiter waiter;

    (void)call;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        (reply->elements - 1) % WAITER_ELEMENTS != 0)
        return false;
    for (size_t i = 0; i < waiters_count(reply); i++)
        if (!waiter_read(reply, i, &waiter))
            return false;
    return resp_reply_text(reply, 0) != NULL && reply->element[0]->len < RESP_DIGITS;
}

/* after: in and out, what waiters.lua says; "" after the last page. */
static enum dlock_status page_read(struct redis_session *session, const struct resp_keys *keys,
                                   char after[RESP_DIGITS], int64_t deadline_ns, redisReply **reply,
                                   struct dlock_error *err)
{
    struct redis_call call;
    char most[RESP_DIGITS];
    enum dlock_status status = DLOCK_INTERNAL;

    redis_call_begin(&call, REDIS_SCRIPT_WAITERS, keys, 1, page_validate);
    resp_command_text(&call.command, after);
    resp_command_text(&call.command, resp_command_number(most, PAGE));
    call.reply_max = ANSWER_MAX_BYTES;
    status = redis_route_run(session, keys, &call, deadline_ns, reply, err);
    if (status == DLOCK_OK)
        (void)snprintf(after, RESP_DIGITS, "%s", (*reply)->element[0]->str);
    return status;
}

enum dlock_status redis_list_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                     int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    struct redis_session *session = self;
    struct dlock_waiter waiter = {.struct_size = sizeof waiter};
    struct resp_keys keys;
    char after[RESP_DIGITS] = "0";
    bool stopped = false;
    enum dlock_status status = resp_keys_refuse(&session->config, name, name_len, err);

    resp_keys_make(&keys, &session->config, name, name_len);
    while (status == DLOCK_OK && !stopped && after[0] != '\0') {
        redisReply *reply = NULL;

        status = page_read(session, &keys, after, deadline_ns, &reply, err);
        for (size_t i = 0; status == DLOCK_OK && i < waiters_count(reply) && !stopped; i++) {
            (void)waiter_read(reply, i, &waiter);
            stopped = fn(arg, &waiter);
            waiter.position++;
        }
        freeReplyObject(reply);
    }
    return status;
}
