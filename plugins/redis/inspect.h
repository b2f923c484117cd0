/* SPDX-License-Identifier: MIT */
/* inspect.h - slot inspect, and the parts of it that slot list uses. */
#ifndef REDIS_INSPECT_H
#define REDIS_INSPECT_H

#include "redis/servers/session.h"

enum dlock_status redis_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                struct dlock_error *err);

struct redis_inspected {
    bool stopped; /* fn returned true */
    bool foreign; /* with CONFIG: a key of the name has another type */
};

/* The work of redis_inspect. */
enum dlock_status redis_inspect_name(struct redis_session *session, const unsigned char *name,
                                     uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                     void *arg, struct redis_inspected *inspected,
                                     struct dlock_error *err);

#define REDIS_INSPECT_MOST 100 /* names in one script; other clients wait while it runs */

/* The same for n names in one exchange; reads only name and name_len of `names`. If a key of one
 * name is foreign, fn is called for no name. Not with key=raw. */
enum dlock_status redis_inspect_names(struct redis_session *session,
                                      const struct dlock_holder *names, size_t n,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct redis_inspected *inspected, struct dlock_error *err);

#endif
