/* SPDX-License-Identifier: MIT */
/*
 * acquire.h - acquiring a lock: does the steps that acquire_fsm.h decides.
 *
 * The order of an attempt is fixed: first a connected session, then a new token, then the moment
 * from which the validity counts, then the first byte of the request. The token is used until the
 * attempt is granted or released; a call that waits keeps it from one try to the next.
 *
 * The folder acquire/ has the way to a lock. acquire_fsm.h decides (pure), local_waiter.h waits
 * inside the process, lengthen.h renews a short grant at once, acquire_text.h words the errors,
 * cancel.h ends a wait. What happens to the lock afterwards is in hold/.
 */
#ifndef DL_ACQUIRE_H
#define DL_ACQUIRE_H

#include "hold/handle.h"

/* timeout_ms: DLOCK_TRY or 0: one attempt; DLOCK_FOREVER; else the longest wait. The results are
 * those of dlock.h. */
enum dlock_status dl_acquire(struct dlock_handle *lock, enum dlock_mode mode, int64_t timeout_ms,
                             struct dlock_error *err);

#endif
