/* SPDX-License-Identifier: MIT */
/* lease.h - slots of plugin.h: trylock, unlock, dequeue and break; and their calls, which a batch
 * shares. */
#ifndef REDIS_LEASE_H
#define REDIS_LEASE_H

#include "lib/request.h"
#include "redis/call/call.h"
#include "redis/servers/session.h"

enum dlock_status redis_lease_trylock(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status redis_lease_unlock(void *self, const struct dlock_request *req,
                                     struct dlock_error *err);
enum dlock_status redis_lease_dequeue(void *self, const struct dlock_request *req,
                                      struct dlock_error *err);
enum dlock_status redis_lease_break(void *self, const unsigned char *name, uint32_t name_len,
                                    const char *owner, int64_t deadline_ns,
                                    struct dlock_error *err);

/* ---- one try to acquire a name ---- */

/* A call, and what it borrows until its end. Has 12 KB, most of which is never used. */
struct redis_take {
    struct resp_keys keys;
    char token[RESP_HEX_SIZE], mode[RESP_DIGITS], ttl[RESP_DIGITS], waiter_ttl[RESP_DIGITS];
    size_t text_len;
    char text[DL_HOLDER_TEXT_MAX];
    struct redis_call call;
};

/* OK: the request may be sent; keys, token, ttl and text are set. Else the status of the slot. */
enum dlock_status redis_lease_take_prepare(const struct redis_session *session,
                                           const struct dlock_request *req, struct redis_take *take,
                                           struct dlock_error *err);

/* After prepare. OK: take->call is to be run. Else the status of the slot. */
enum dlock_status redis_lease_take_begin(struct redis_session *session,
                                         const struct dlock_request *req, struct redis_take *take,
                                         struct dlock_error *err);

/* The call ended with status and, if that is OK, with reply, which is freed. Returns the status of
 * the slot. */
enum dlock_status redis_lease_take_end(struct redis_session *session,
                                       const struct dlock_request *req,
                                       const struct redis_take *take, enum dlock_status status,
                                       redisReply *reply, struct dlock_grant *grant,
                                       struct dlock_error *err);

/* Whether acquire_many.lua can grant it, if the name is free. */
bool redis_lease_take_is_simple(const struct dlock_request *req);
/* It did. */
void redis_lease_take_granted(struct redis_session *session, const struct dlock_request *req,
                              int64_t fence, struct dlock_grant *grant);

/* ---- one release of a name ---- */

/* A call, and what it borrows until its end. Has 10 KB, most of which is never used. */
struct redis_release {
    struct resp_keys keys;
    char token[RESP_HEX_SIZE], keep_ms[RESP_DIGITS];
    struct redis_call call;
};

/* Slot unlock: frees what the attempt refers to [UNL-4], and sets keys and token. */
void redis_lease_release_prepare(const struct redis_session *session,
                                 const struct dlock_request *req, struct redis_release *release);

/* After prepare: the call of slot unlock. */
void redis_lease_release_begin(const struct dlock_request *req, struct redis_release *release);

/* Whether release_many.lua can release it, if there is no waiter. */
bool redis_lease_release_is_simple(const struct dlock_request *req);

/* The call of slot unlock ended with status and, if that is OK, with reply, which is freed. Returns
 * the status of the slot. */
enum dlock_status redis_lease_release_end(struct redis_session *session,
                                          const struct redis_release *release,
                                          enum dlock_status status, redisReply *reply,
                                          struct dlock_error *err);

#endif
