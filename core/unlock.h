/* SPDX-License-Identifier: MIT */
/*
 * unlock.h - the end of a claim: to another handle of the client (handoff.h), or to the store.
 */
#ifndef DL_UNLOCK_H
#define DL_UNLOCK_H

#include "lock.h"

enum dlock_status dl_unlock(struct dlock *lock, struct dlock_error *err);

/* Releases however deep it is nested, by deadline_ns. The mutex is held before and after, not in
 * between. */
enum dlock_status dl_unlock_whole_locked(struct dlock *lock, int64_t deadline_ns,
                                         struct dlock_error *err);

#endif
