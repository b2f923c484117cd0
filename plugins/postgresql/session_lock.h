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
 * is stopped, or cut off, keeps the name no longer than that.
 */
#ifndef PG_SESSION_LOCK_H
#define PG_SESSION_LOCK_H

#include "session.h"

enum dlock_status pg_session_lock_try(struct pg_session *session, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err);
/* TIMEOUT and CANCELED end the connection unless the server has said that the wait is over. */
enum dlock_status pg_session_lock_wait(struct pg_session *session, const struct dlock_request *req,
                                       struct dlock_grant *grant, struct dlock_error *err);
/* LOST: the server has ended the session. UNKNOWN: the server says nothing. The lock lives on as
 * long as the session, and the next renewal or unlock reads the answer first. */
enum dlock_status pg_session_lock_renew(struct pg_session *session, struct dlock_lease_op *op,
                                        int64_t deadline_ns, struct dlock_error *err);
enum dlock_status pg_session_lock_unlock(struct pg_session *session,
                                         const struct dlock_request *req, struct dlock_error *err);
/* UNSUPPORTED, with a text that says what to do. */
enum dlock_status pg_session_lock_break(struct dlock_error *err);

#endif
