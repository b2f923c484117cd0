/* SPDX-License-Identifier: MIT */
/* guard.h - asks the server for what view.h needs. */
#ifndef REDIS_GUARD_H
#define REDIS_GUARD_H

#include "redis/guard/view.h"

struct redis_pipeline;

/* Of one connection; host and config are borrowed. NULL: no memory. */
struct redis_guard *redis_guard_new(const struct dlock_host *host,
                                    const struct resp_config *config);
/* NULL is fine. */
void redis_guard_free(struct redis_guard *guard);

/* Decides whether the connection needs the guard, and takes its first view. *others_have_it:
 * another connection of the client does, so this one does; set from when this one does. Completes
 * info: is_guarded, and in a cluster all replicas. OK; CONFIG: how long an old master goes on is
 * not bounded, err says what to set; UNAVAILABLE and so on. */
enum dlock_status redis_guard_begin(struct redis_pipeline *pipeline, _Atomic bool *others_have_it,
                                    struct resp_info *info, int64_t deadline_ns,
                                    struct dlock_error *err);

/* Looks. settle: also waits, for a short time, until replicas have acknowledged the view. OK also
 * if the server cannot be written: then scripts refuse. */
enum dlock_status redis_guard_view(struct redis_pipeline *pipeline, bool settle,
                                   int64_t deadline_ns, struct dlock_error *err);

#endif
