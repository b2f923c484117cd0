/* SPDX-License-Identifier: MIT */
/* send.h - a call as an exchange on one connection: its bytes, and what its answer says. */
#ifndef REDIS_SEND_H
#define REDIS_SEND_H

#include "redis/call/call.h"
#include "redis/link/pipeline.h"

/* redis_exchange.validate; asked is the call. An answer to another request never gets through. */
bool redis_send_validate(const void *asked, redisReply *reply);

/* Sets exchange->bytes, to be freed: the call as it is sent on this connection. OK or NOMEM. */
enum dlock_status redis_send_make(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                  struct redis_call *call, struct redis_exchange *exchange,
                                  struct dlock_error *err);

/* The exchange was made: after some errors of the server the connection is not used again. */
void redis_send_end(struct redis_pool *pool, struct redis_pipeline *pipeline,
                    const struct redis_exchange *exchange);

/* The status of an exchange that was made, with its text. */
enum dlock_status redis_send_status(const struct redis_pool *pool,
                                    const struct redis_exchange *exchange, struct dlock_error *err);

/* The server did nothing, because it is not what this connection judged: a new one does. */
bool redis_send_is_other(const struct redis_exchange *exchange);

/* The server did nothing, because the replicas had not acknowledged what this connection saw last.
 */
bool redis_send_is_unconfirmed(const struct redis_exchange *exchange);

/* A lock that was held for longer than a look counts: without a new look nothing would be passed
 * on. The release itself needs none, and goes on without. */
void redis_send_release_prepare(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                int64_t deadline_ns);

#endif
