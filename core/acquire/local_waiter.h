/* SPDX-License-Identifier: MIT */
/*
 * local_waiter.h - waiting inside the process: in line behind other threads of the client, and, as
 * the head of the line, for a handle of the client that holds the lock.
 *
 * While one does, the store has nothing to tell the head: it sleeps here, where it can be handed
 * the lease (handoff.h), and keeps its place in the store's queue by refreshing it.
 */
#ifndef DL_LOCAL_WAITER_H
#define DL_LOCAL_WAITER_H

#include "hold/handle.h"

/*
 * In line, if `wait`, until it is our turn. OK: let in, or handed a claim. BUSY: others are in
 * line, and we are not to wait. CANCELED, CLOSED. At the deadline TIMEOUT, or UNAVAILABLE or
 * NO_QUORUM if the store fails the first in line. *now_ns is kept up. With the mutex held, which it
 * gives up while it waits.
 */
enum dlock_status dl_local_waiter_enter_locked(struct dlock *lock, enum dlock_mode mode, bool wait,
                                               int64_t deadline_ns, int64_t *now_ns);

/* Out of the line, if in it; who may come next is let in. With the mutex held. */
void dl_local_waiter_unlink_locked(struct dlock *lock);

/* true: a claim was handed to us; it is lock->claim, and this is told once. *cancel: what the call
 * is to return instead of waiting; OK: go on. go: to the store, which ends our being ready. */
bool dl_local_waiter_recheck(struct dlock *lock, bool go, enum dlock_status *cancel);

/* Whether a handle of this client stands in the way of one that is in line. */
bool dl_local_waiter_held_here(struct dlock *lock);

/*
 * Sleeps until until_ns (TIMEOUT), a cancellation (CANCELED) or, if `held` a handle of this client
 * stands in the way, until it does no more (BUSY). With `ready`, until it hands its claim on (OK),
 * which dl_local_waiter_recheck tells.
 */
enum dlock_status dl_local_waiter_park(struct dlock *lock, int64_t until_ns, bool held, bool ready);

#endif
