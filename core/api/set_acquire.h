/* SPDX-License-Identifier: MIT */
/* set_acquire.h - acquires all members of a set, or none; unlocks them. */
#ifndef DL_SET_ACQUIRE_H
#define DL_SET_ACQUIRE_H

#include "api/set.h"

/* In the phase ACQUIRING. timeout_ms: as of dl_acquire. The results are those of dlock.h. */
enum dlock_status dl_set_acquire_all(struct dlock_set *set, enum dlock_mode mode,
                                     int64_t timeout_ms, struct dlock_error *err);

/*
 * Unlocks the first `count` members, the last one first. After a member for which the store gave no
 * answer, the store is not asked for the others: their leases end by themselves.
 *
 * LOST: one of them was lost; else the first failure; else OK. NOT_HELD: none of them was held.
 */
enum dlock_status dl_set_acquire_undo(struct dlock_set *set, size_t count, struct dlock_error *err);

#endif
