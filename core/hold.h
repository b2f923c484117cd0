/* SPDX-License-Identifier: MIT */
/*
 * hold.h - what happens to a lease while it is held: granted, renewed, doubted, lost. All with the
 * client's mutex held.
 */
#ifndef DL_HOLD_H
#define DL_HOLD_H

#include "lock.h"

/* The attempt was granted; until_ns is already right as to drift (C3 was checked). */
void dl_hold_granted_locked(struct dlock *lock, int64_t now_ns, int64_t until_ns,
                            const struct dlock_grant *grant);

/*
 * A renewal sent at sent_ns has ended with status. Returns OK: extended; LOST; or status: the old
 * validity stands. LOST with *stale set: the store did extend it, but too late for us; the lease
 * there should be given back.
 */
enum dlock_status dl_hold_renewed_locked(struct dlock *lock, int64_t sent_ns, int64_t now_ns,
                                         enum dlock_status status, const struct dlock_grant *grant,
                                         bool *stale);

/* Looks at a handle whose time has come. true: renew it now. */
bool dl_hold_due_locked(struct dlock *lock, int64_t now_ns);

/* Lost; reports it unless it was reported. */
void dl_hold_lose_locked(struct dlock *lock, enum dlock_reason reason);

/* Not held any more: out of the schedule. */
void dl_hold_end_locked(struct dlock *lock);

#endif
