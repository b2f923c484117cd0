/* SPDX-License-Identifier: MIT */
/*
 * session_lock.h - the slots of strategy session: an advisory lock of the connection is the lock.
 *
 * Each name has a number, which a row keeps beside it, with the fence. The lock is the session's
 * advisory lock on this number. The fence is committed by the same session while it has the
 * advisory lock, and before the caller learns of it. So a session that dies in between leaves a
 * fence that nobody got, and a later holder has a greater one.
 *
 * The server ends the session, and so the lock, if the session is idle for the lease: a client that
 * is stopped, or cut off, keeps the name no longer than that. self is a struct pg_session.
 */
#ifndef PG_SESSION_LOCK_H
#define PG_SESSION_LOCK_H

#include "session.h"

enum dlock_status pg_session_trylock(void *self, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err);
/* TIMEOUT and CANCELED end the connection unless the server has said that the wait is over. */
enum dlock_status pg_session_lock(void *self, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err);
/* LOST: the server has ended the session. UNKNOWN: the server says nothing. The lock lives on as
 * long as the session, and the next renewal or unlock reads the answer first. */
enum dlock_status pg_session_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                   int64_t deadline_ns, struct dlock_error *err);
enum dlock_status pg_session_unlock(void *self, const struct dlock_request *req,
                                    struct dlock_error *err);
/* UNSUPPORTED, with a text that says what to do. */
enum dlock_status pg_session_break(void *self, const unsigned char *name, uint32_t name_len,
                                   const char *owner, int64_t deadline_ns, struct dlock_error *err);

/* pg_locks tells that holders are there, and a row which owner that is. With key=advisory another
 * program may hold the lock: it has no owner token, and its label names its process at the server.
 */
enum dlock_status pg_session_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                     int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                     struct dlock_error *err);
enum dlock_status pg_session_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err);

#endif
