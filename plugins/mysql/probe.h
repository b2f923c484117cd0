/* SPDX-License-Identifier: MIT */
/* probe.h - what this store gives, for people, and as capabilities. */
#ifndef MY_PROBE_H
#define MY_PROBE_H

#include "connection.h"

/* The most that each strategy can do. */
#define MY_ROW_CAPS                                                                       \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | \
     DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA)
#define MY_SESSION_CAPS                                                                     \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | DLOCK_CAP_NATIVE_WAIT | \
     DLOCK_CAP_SESSION)

void my_probe_info(const struct my_connection *conn, struct dlock_session_info *info);
enum dlock_status my_probe(struct my_connection *conn, dlock_check_fn *fn, void *arg,
                           struct dlock_error *err);

#endif
