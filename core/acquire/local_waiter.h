/* SPDX-License-Identifier: MIT */
/*
 * local_waiter.h - waiting inside the process: behind other threads of the client, and, as the
 * first waiter, for a handle of the client that holds the lock.
 *
 * While a handle of the client holds the lock, the store has no news for the first waiter: it
 * sleeps here, where it can be handed the lease (unlock.h), and keeps its entry in the store's
 * queue by refreshing it.
 */
#ifndef DL_LOCAL_WAITER_H
#define DL_LOCAL_WAITER_H

#include "hold/handle.h"

/* Enters the local queue, if `wait`, and waits until the call is admitted. OK: admitted, or handed
 * a claim. BUSY: others wait, and the call must not wait. CANCELED, CLOSED. At the deadline
 * TIMEOUT, or UNAVAILABLE or NO_QUORUM if the store fails the first waiter. *now_ns: the time after
 * the wait. Releases the mutex while it waits. */
enum dlock_status dl_local_waiter_enter_locked(struct dlock_handle *lock, enum dlock_mode mode,
                                               bool wait, int64_t deadline_ns, int64_t *now_ns);

/* The same without the wait. OK: the call is in the queue, or need not wait. */
enum dlock_status dl_local_waiter_join_locked(struct dlock_handle *lock, enum dlock_mode mode,
                                              bool wait);

/* Whether the wait for the admission is over; *status is then that of dl_local_waiter_enter_locked.
 */
bool dl_local_waiter_admission_locked(struct dlock_handle *lock, int64_t deadline_ns,
                                      int64_t now_ns, enum dlock_status *status);

/* Leaves the local queue, if it is in it, and admits the next waiters. */
void dl_local_waiter_unlink_locked(struct dlock_handle *lock);

/* Returns true, once, if another thread handed its claim to this handle. Sets *cancel to the status
 * with which the call must return, or DLOCK_OK. go: the call asks the store now, and no claim can
 * be handed to it. */
bool dl_local_waiter_recheck(struct dlock_handle *lock, bool go, enum dlock_status *cancel);

/* Whether a handle of this client holds the lock that this waiter waits for. Never of a semaphore,
 * which other clients may release. */
bool dl_local_waiter_held_here(struct dlock_handle *lock);

/* Sleeps until until_ns (TIMEOUT) or a cancellation (CANCELED). held: a handle of this client holds
 * the lock; the sleep ends when it does no longer (BUSY). ready: that handle may hand its claim on
 * (OK); dl_local_waiter_recheck then returns true. */
enum dlock_status dl_local_waiter_park(struct dlock_handle *lock, int64_t until_ns, bool held,
                                       bool ready);

/* The same in parts, for a caller that does not sleep. over: whether the sleep is over, with
 * *status as above. */
void dl_local_waiter_park_begin_locked(struct dlock_handle *lock, bool held, bool ready);
bool dl_local_waiter_park_over_locked(struct dlock_handle *lock, int64_t until_ns, bool held,
                                      enum dlock_status *status);

#endif
