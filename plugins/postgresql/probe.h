/* SPDX-License-Identifier: MIT */
/* probe.h - what the server and its settings promise. */
#ifndef PG_PROBE_H
#define PG_PROBE_H

#include "connection.h"

/* The most that each strategy can do. */
#define PG_ROW_CAPS                                                                                \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE |          \
     DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | \
     DLOCK_CAP_DATA)
#define PG_SESSION_CAPS                                                                     \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | DLOCK_CAP_NATIVE_WAIT | \
     DLOCK_CAP_SESSION)

/* The capabilities, the server and the endpoint, as the setup found them. */
void pg_probe_info(const struct pg_connection *conn, struct dlock_session_info *info);

/* Checks the server again and reports each check. */
enum dlock_status pg_probe(struct pg_connection *conn, dlock_check_fn *fn, void *arg,
                           struct dlock_error *err);

#endif
