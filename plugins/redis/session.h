/* SPDX-License-Identifier: MIT */
/* session.h - what the slots of plugin.h are given: a client's side of the server. */
#ifndef REDIS_SESSION_H
#define REDIS_SESSION_H

#include "pool.h"
#include "waiter.h"

struct redis_session {
    const struct dlock_host *host;
    struct resp_config place;
    struct tls *tls;
    struct redis_pool pool;
    struct resp_subscriber subscriber;
    atomic_bool told_failure; /* of passing on */
    int64_t waiter_lease_ms;  /* how long a place lasts, and the lease that is granted to it */
};

struct redis_looked {
    bool stopped; /* fn wanted no more */
    bool foreign; /* CONFIG: a key of the name is something else */
};

/* What redis_inspect does. */
enum dlock_status redis_look(struct redis_session *session, const unsigned char *name,
                             uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                             struct redis_looked *looked, struct dlock_error *err);

#define REDIS_LOOK_MOST 100 /* names in one script; other clients wait meanwhile */

/* The same for n names in one exchange; of `names` the name alone is read. If one of them is
 * foreign, no name is told of. Not with key=raw. */
enum dlock_status redis_look_names(struct redis_session *session, const struct dlock_holder *names,
                                   size_t n, int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   struct redis_looked *looked, struct dlock_error *err);

#endif
