/* SPDX-License-Identifier: MIT */
/*
 * deadman.h - the end of the process at the end of a claim (DLOCK_EXPIRE_KILL): one kill timer a
 * client, set to the earliest end of the claims that ask for it.
 *
 * A claim is in it from the grant until its end is said: before the release is sent or the lease is
 * handed on, and after a loss until the application acknowledges it. A confirmed renewal moves its
 * end on, and nothing else does. Who does not ask has a NULL pointer and pays nothing.
 *
 * The client's mutex guards all of it.
 */
#ifndef DL_DEADMAN_H
#define DL_DEADMAN_H

#include "hold/handle.h"

/* Of a new handle that asks for it. UNSUPPORTED, NOMEM. */
enum dlock_status dl_deadman_add_locked(struct dlock_handle *lock, struct dlock_error *err);
void dl_deadman_remove_locked(struct dlock_handle *lock);

/* The lease of the handle ends at until_ns. A new lease comes here before its handle reads as held,
 * one that is extended afterwards. */
void dl_deadman_hold_locked(struct dlock_handle *lock, int64_t until_ns);

/* The claim ends. */
void dl_deadman_end_locked(struct dlock_handle *lock);

/* The claim is about to end: nothing arms it again until it has ended. */
void dl_deadman_disarm_locked(struct dlock_handle *lock);

/* Of a client without handles; may be NULL. In a forked child there is no timer. */
void dl_deadman_free(struct dlock_client *client);
void dl_deadman_free_after_fork(struct dlock_client *client);

#endif
