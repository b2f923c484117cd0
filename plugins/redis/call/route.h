/* SPDX-License-Identifier: MIT */
/* route.h - runs a call at the server that has its name. */
#ifndef REDIS_ROUTE_H
#define REDIS_ROUTE_H

#include "redis/call/call.h"
#include "redis/servers/session.h"

/*
 * As redis_call_run, at the server of the session, or, in a cluster, at the master of the slot of
 * key. Follows MOVED and ASK, and repeats TRYAGAIN for some milliseconds; then UNAVAILABLE.
 */
enum dlock_status redis_route_run(struct redis_session *session, const struct resp_keys *key,
                                  struct redis_call *call, int64_t deadline_ns, redisReply **out,
                                  struct dlock_error *err);

/* The same for many calls, as redis_call_run_all. In a cluster they leave together where they go to
 * the server of the first one; the others are run one after the other. */
void redis_route_run_all(struct redis_session *session, const struct resp_keys *const *keys,
                         struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                         int64_t deadline_ns);

/* The slot server_of of plugin.h. */
uint32_t redis_route_server_of(void *self, const unsigned char *name, uint32_t name_len);

#endif
