/* SPDX-License-Identifier: MIT */
/* session_lock.h - the slots of strategy session: a row lock is the lock. */
#ifndef MY_SESSION_LOCK_H
#define MY_SESSION_LOCK_H

#include "session.h"

enum dlock_status my_session_lock_try(struct my_session *session, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_session_lock_wait(struct my_session *session, const struct dlock_request *req,
                                       struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_session_lock_renew(struct my_session *session, struct dlock_lease_op *op,
                                        int64_t deadline_ns, struct dlock_error *err);
enum dlock_status my_session_lock_unlock(struct my_session *session,
                                         const struct dlock_request *req, struct dlock_error *err);

#endif
