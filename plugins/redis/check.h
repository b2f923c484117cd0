/* SPDX-License-Identifier: MIT */
/* check.h - what a connection has to find before it sends a call: its server is a master still, and
 * may grant. */
#ifndef REDIS_CHECK_H
#define REDIS_CHECK_H

#include "call.h"

/* A master that became a replica keeps its connections and may be writable: the new master knows
 * nothing of its grants. OK also if the connection is dead, which the request itself will find. */
enum dlock_status redis_check_role(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                   int64_t deadline_ns, struct dlock_error *err);

/* A server that started a moment ago may have forgotten its grants, and its releases. BUSY, and
 * UNAVAILABLE for an adoption: it grants nothing yet. Sets call->guarded. */
enum dlock_status redis_check_guard(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                    struct redis_call *call, struct dlock_error *err);

/* The same: call->guard_left_ms is left of the time after a failover. */
enum dlock_status redis_check_young(const struct resp_config *config, struct redis_call *call,
                                    int64_t age_ms, struct dlock_error *err);

#endif
