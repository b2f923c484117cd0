/* SPDX-License-Identifier: MIT */
/*
 * acquire.h - the way to a lock: does what acquire_fsm.c decides.
 *
 * A connected session comes first, then a new token, then the moment from which the validity
 * counts, then the first byte. The token lives until the attempt is granted or released; a wait
 * keeps it from one look to the next.
 */
#ifndef DL_ACQUIRE_H
#define DL_ACQUIRE_H

#include "hold/handle.h"

/* timeout_ms: DLOCK_TRY or 0: one attempt; DLOCK_FOREVER; else a bound. Outcomes as in dlock.h. */
enum dlock_status dl_acquire(struct dlock *lock, enum dlock_mode mode, int64_t timeout_ms,
                             struct dlock_error *err);

#endif
