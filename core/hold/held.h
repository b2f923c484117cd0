/* SPDX-License-Identifier: MIT */
/*
 * held.h - what happens to a lease while it is held: granted, renewed, doubted, lost. All with the
 * client's mutex held.
 */
#ifndef DL_HELD_H
#define DL_HELD_H

#include "hold/handle.h"

/* The handle is, or is no more, among the holders of its name; the latter lets waiters look again.
 * Nothing happens when that is so already. */
void dl_held_count_locked(struct dlock *lock);
void dl_held_uncount_locked(struct dlock *lock);
void dl_held_count_moved_locked(struct dlock *from, struct dlock *to);

/* Lets in whoever may come next in the name's queue, and wakes those who are in. */
void dl_held_admit_locked(struct dlock *lock);

/* A recursive handle is acquired again by its holder. OK: counted. NOT_HELD: that is not what it
 * is. */
enum dlock_status dl_held_again_locked(struct dlock *lock, enum dlock_mode mode,
                                       struct dlock_error *err);

/* The attempt was granted; until_ns is already right as to drift (C3 was checked). */
void dl_held_granted_locked(struct dlock *lock, int64_t now_ns, int64_t until_ns,
                            const struct dlock_grant *grant);

/*
 * A renewal sent at sent_ns has ended with status. Returns OK: extended; LOST; or status: the old
 * validity stands. LOST with *stale set: the store did extend it, but too late for us; the lease
 * there should be given back.
 */
enum dlock_status dl_held_renewed_locked(struct dlock *lock, int64_t sent_ns, int64_t now_ns,
                                         enum dlock_status status, const struct dlock_grant *grant,
                                         bool *stale);

/* How many others of all clients wait, by an answer to this handle; UINT32_MAX: not known. Who
 * takes no places in the queue has to expect that others do not, either. */
uint32_t dl_held_waiters(const struct dlock *lock, const struct dlock_grant *grant);

/* Looks at a handle whose time has come, but for early_ns. true: renew it now. */
bool dl_held_due_locked(struct dlock *lock, int64_t now_ns, int64_t early_ns);

/* The call on the handle is over: ends its phase. */
void dl_held_idle_locked(struct dlock *lock);

/* Lost; reports it unless it was reported. */
void dl_held_lose_locked(struct dlock *lock, enum dlock_reason reason);

/* The loss that was reported by this part of a handle: still its last one. */
struct dlock_notice dl_held_event_locked(struct dl_event_node *node);

/* The claim is shared from here on; the next renewals tell the store until one is confirmed. */
void dl_held_downgrade_locked(struct dlock *lock);

/* Not held any more: out of the schedule. The name stays counted until the store knows. */
void dl_held_end_locked(struct dlock *lock);

#endif
