/* SPDX-License-Identifier: MIT */
/* inspect.h - slot inspect, and what list takes of it. */
#ifndef REDIS_INSPECT_H
#define REDIS_INSPECT_H

#include "session.h"

enum dlock_status redis_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                struct dlock_error *err);

struct redis_inspected {
    bool stopped; /* fn wanted no more */
    bool foreign; /* CONFIG: a key of the name is something else */
};

/* What redis_inspect does. */
enum dlock_status redis_inspect_name(struct redis_session *session, const unsigned char *name,
                                     uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                     void *arg, struct redis_inspected *inspected,
                                     struct dlock_error *err);

#define REDIS_INSPECT_MOST 100 /* names in one script; other clients wait meanwhile */

/* The same for n names in one exchange; of `names` the name alone is read. If one of them is
 * foreign, no name is told of. Not with key=raw. */
enum dlock_status redis_inspect_names(struct redis_session *session,
                                      const struct dlock_holder *names, size_t n,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct redis_inspected *inspected, struct dlock_error *err);

#endif
