/* SPDX-License-Identifier: MIT */
/*
 * acquire.h - acquiring a lock: does the steps that acquire_fsm.h decides.
 *
 * The order of an attempt is fixed: first a connected session, then a new token, then the moment
 * from which the validity counts, then the first byte of the request. The token is used until the
 * attempt is granted or released; a call that waits keeps it from one try to the next.
 *
 * The folder acquire/ has the way to a lock. acquire_fsm.h decides (pure), local_waiter.h waits
 * inside the process. What happens to the lock afterwards is in hold/.
 */
#ifndef DL_ACQUIRE_H
#define DL_ACQUIRE_H

#include "hold/handle.h"

/* timeout_ms: 0: one attempt; DLOCK_FOREVER; else the longest wait. The results are
 * those of dlock.h. */
enum dlock_status dl_acquire(struct dlock_handle *lock, enum dlock_mode mode, int64_t timeout_ms,
                             struct dlock_error *err);

/* The call that acquires on the handle, or else the next one, returns DLOCK_CANCELED. */
void dl_acquire_cancel(struct dlock_handle *lock);

/* Takes back a dl_acquire_cancel that no call has seen. */
void dl_acquire_cancel_reset(struct dlock_handle *lock);

/* The call that acquires on the handle returns status. */
void dl_acquire_cancel_locked(struct dlock_handle *lock, enum dlock_status status);

/* The calls that acquire on any handle return status. */
void dl_acquire_cancel_all_locked(struct dlock_client *client, enum dlock_status status);

#endif
