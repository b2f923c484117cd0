/* SPDX-License-Identifier: MIT */
/*
 * session_inspect.h - the holders of strategy session: pg_locks tells that they are there, and a
 * row which owner that is. With key=advisory another program may hold the lock: it has no owner
 * token, and its label names its process at the server.
 */
#ifndef PG_SESSION_INSPECT_H
#define PG_SESSION_INSPECT_H

#include "session.h"

enum dlock_status pg_session_inspect(struct pg_session *session, const unsigned char *name,
                                     uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                     void *arg, struct dlock_error *err);
enum dlock_status pg_session_inspect_list(struct pg_session *session, const unsigned char *prefix,
                                          uint32_t prefix_len, int64_t deadline_ns,
                                          dlock_holder_fn *fn, void *arg, struct dlock_error *err);

#endif
