/* SPDX-License-Identifier: MIT */
/*
 * parents.h - makes the node of a name, and those above it.
 *
 * The base and what is above it are persistent. The node of a name, and with key=raw each node
 * below the base, is a container: the servers delete it some time after its last child.
 */
#ifndef ZK_PARENTS_H
#define ZK_PARENTS_H

#include "session.h"

/* The node of a name. */
struct zk_parent {
    const char *path;
    struct dlock_error *err;
    enum dlock_status status; /* out */
};

/* Asked for when a create below each of the paths was answered ZNONODE. One flight makes all that
 * need no more than their last node. If a node above is missing, one path is made first, and the
 * last nodes of the others are tried again; what is still missing then has a flight each. OK: it
 * was made, or is there. Statuses of zk_flight_run, but never UNKNOWN (UNAVAILABLE): a node without
 * children matters to nobody. n: ZK_FLIGHT_MOST at most.
 */
void zk_parents_make(struct zk_session *session, struct zk_parent *parents, size_t n,
                     int64_t deadline_ns);

#endif
