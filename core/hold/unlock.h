/* SPDX-License-Identifier: MIT */
/*
 * unlock.h - the end of a claim: the lease goes to another handle of the client (handoff.h), or
 * back to the store.
 */
#ifndef DL_UNLOCK_H
#define DL_UNLOCK_H

#include "hold/handle.h"

/* Both functions end within op_timeout and by until_ns, or 40 ms after a renewal for which they had
 * to wait. If until_ns has passed, the claim ends and the store is not asked: UNAVAILABLE. */
enum dlock_status dl_unlock(struct dlock *lock, int64_t until_ns, struct dlock_error *err);

/* Releases the lock at any depth of recursion, also while an operation is under way. Releases the
 * mutex meanwhile. */
enum dlock_status dl_unlock_whole_locked(struct dlock *lock, int64_t until_ns,
                                         struct dlock_error *err);

#endif
