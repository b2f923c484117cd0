/* SPDX-License-Identifier: MIT */
/* session_lock.h - the slots of strategy session, whose lock is a row lock; self is a struct
 * my_session. It has no batches [SES-1]: many locks are many connections and many exchanges. */
#ifndef MY_SESSION_LOCK_H
#define MY_SESSION_LOCK_H

#include "shared.h"

enum dlock_status my_session_trylock(void *self, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_session_lock(void *self, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status my_session_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                   int64_t deadline_ns, struct dlock_error *err);
enum dlock_status my_session_unlock(void *self, const struct dlock_request *req,
                                    struct dlock_error *err);
/* UNSUPPORTED, with a text that says what to do. */
enum dlock_status my_session_break(void *self, const unsigned char *name, uint32_t name_len,
                                   const char *owner, int64_t deadline_ns, struct dlock_error *err);

#endif
