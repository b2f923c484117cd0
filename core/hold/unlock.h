/* SPDX-License-Identifier: MIT */
/*
 * unlock.h - the end of a claim: to another handle of the client (handoff.h), or to the store.
 */
#ifndef DL_UNLOCK_H
#define DL_UNLOCK_H

#include "hold/handle.h"

/* Both within op_timeout, and 40 ms after a renewal that they had to wait for. */
enum dlock_status dl_unlock(struct dlock *lock, struct dlock_error *err);

/* Releases however deep it is nested, within op_timeout and by until_ns; once that is over the
 * claim ends and the store is not asked: UNAVAILABLE. The mutex is held before and after, not in
 * between.
 */
enum dlock_status dl_unlock_whole_locked(struct dlock *lock, int64_t until_ns,
                                         struct dlock_error *err);

#endif
