/* SPDX-License-Identifier: MIT */
/* take.h - one try to acquire a name: the call, and what its answer says. */
#ifndef REDIS_TAKE_H
#define REDIS_TAKE_H

#include "lib/holder_text.h"
#include "redis/call/call.h"
#include "redis/servers/session.h"

/* A call, and what it borrows until its end. Has 12 KB, most of which is never used. */
struct redis_take {
    struct resp_keys keys;
    char token[RESP_HEX_SIZE], mode[RESP_DIGITS], ttl[RESP_DIGITS], waiter_ttl[RESP_DIGITS];
    size_t text_len;
    char text[DL_HOLDER_TEXT_MAX];
    struct redis_call call;
};

/* OK: the request may be sent; keys, token, ttl and text are set. Else the status of the slot. */
enum dlock_status redis_take_prepare(const struct redis_session *session,
                                     const struct dlock_request *req, struct redis_take *take,
                                     struct dlock_error *err);

/* After prepare. OK: take->call is to be run. Else the status of the slot. */
enum dlock_status redis_take_begin(struct redis_session *session, const struct dlock_request *req,
                                   struct redis_take *take, struct dlock_error *err);

/* The call ended with status and, if that is OK, with reply, which is freed. Returns the status of
 * the slot. */
enum dlock_status redis_take_end(struct redis_session *session, const struct dlock_request *req,
                                 const struct redis_take *take, enum dlock_status status,
                                 redisReply *reply, struct dlock_grant *grant,
                                 struct dlock_error *err);

/* Whether acquire_many.lua can grant it, if the name is free. */
bool redis_take_is_simple(const struct dlock_request *req);
/* It did. */
void redis_take_granted(struct redis_session *session, const struct dlock_request *req,
                        int64_t fence, struct dlock_grant *grant);

#endif
