/* SPDX-License-Identifier: MIT */
/* look.h - who holds names, a majority of the nodes being asked. */
#ifndef REDLOCK_LOOK_H
#define REDLOCK_LOOK_H

#include "redlock.h"

struct redlock_name {
    const unsigned char *bytes;
    uint32_t len;
};

#define REDLOCK_LOOK_MAX 64 /* names in one script; other clients wait meanwhile */

/* Calls fn for each holder of these names. *stopped: fn wanted no more. OK, NO_QUORUM, NOMEM. */
enum dlock_status redlock_look(struct redlock_session *session, const struct redlock_name *names,
                               size_t count, int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                               bool *stopped, struct dlock_error *err);

#endif
