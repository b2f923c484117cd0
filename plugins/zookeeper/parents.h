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

/* Asked for when a create below path was answered ZNONODE. OK: it was made, or is there. Statuses
 * of zk_flight_run, but never UNKNOWN (UNAVAILABLE): a node without children matters to nobody. */
enum dlock_status zk_parents_make(struct zk_session *session, const char *path, int64_t deadline_ns,
                                  struct dlock_error *err);

#endif
