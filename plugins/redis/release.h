/* SPDX-License-Identifier: MIT */
/* release.h - one release of a name: the call, and what its answer says. */
#ifndef REDIS_RELEASE_H
#define REDIS_RELEASE_H

#include "redis/call/call.h"
#include "redis/servers/session.h"

/* A call, and what it borrows until its end. Has 10 KB, most of which is never used. */
struct redis_release {
    struct resp_keys keys;
    char token[RESP_HEX_SIZE], keep_ms[RESP_DIGITS];
    struct redis_call call;
};

/* what: the word of release.lua. */
void redis_release_begin(struct redis_session *session, const unsigned char *name,
                         uint32_t name_len, const char *token, const char *what,
                         struct redis_release *release);

/* Slot unlock: frees what the attempt refers to [UNL-4], and sets keys and token. */
void redis_release_prepare_unlock(const struct redis_session *session,
                                  const struct dlock_request *req, struct redis_release *release);

/* After prepare: the call of slot unlock. */
void redis_release_begin_unlock(const struct dlock_request *req, struct redis_release *release);

/* Whether release_many.lua can release it, if there is no waiter. */
bool redis_release_is_simple(const struct dlock_request *req);

/* The call ended with reply, which is freed. Whether the name was released. */
bool redis_release_end(struct redis_session *session, const struct redis_release *release,
                       redisReply *reply);

/* The call of slot unlock ended with status and, if that is OK, with reply, which is freed. Returns
 * the status of the slot. */
enum dlock_status redis_release_end_unlock(struct redis_session *session,
                                           const struct redis_release *release,
                                           enum dlock_status status, redisReply *reply,
                                           struct dlock_error *err);

#endif
