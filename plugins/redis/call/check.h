/* SPDX-License-Identifier: MIT */
/*
 * check.h - what a client learned about its server, and when it learns that again.
 *
 *   it is a master, and the one that was judged:   each script looks by itself (same.lua)
 *   no replica follows it, or enough of them do:   each script (same.lua; guard.lua)
 *   what the failover guard compares with:         a look each second (guard.h)
 *   what it gives: durability, eviction and so on: a look each 10 s, before a call that grants
 *
 * A connection whose server has changed takes no more requests. The next one judges the server
 * (pool.c), in the same call.
 */
#ifndef REDIS_CHECK_H
#define REDIS_CHECK_H

#include "redis/call/call.h"

/* Looks, if it is time to. OK also if the connection is dead, which the request itself will find.
 */
enum dlock_status redis_check_server(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                     int64_t deadline_ns, struct dlock_error *err);

/* A server that started a moment ago may have forgotten its grants, and its releases. BUSY, and
 * UNAVAILABLE for an adoption: it grants nothing yet. Sets call->guarded. */
enum dlock_status redis_check_guard(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                    struct redis_call *call, struct dlock_error *err);

/* The same: call->guard_left_ms is left of the time after a failover. */
enum dlock_status redis_check_young(const struct resp_config *config, struct redis_call *call,
                                    int64_t age_ms, struct dlock_error *err);

#endif
