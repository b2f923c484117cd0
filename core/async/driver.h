/* SPDX-License-Identifier: MIT */
/*
 * driver.h - the threads that do what dlock_op_start begins.
 *
 * A client has two of them, from its first dlock_op_start or from dlock_client_open_start on. The
 * first thread does everything; the second one helps while the first one is in an exchange for more
 * than 5 ms, so that a silent store delays neither deadlines nor other exchanges of one operation.
 * An acquire is run until it waits (acquire_async.h); the other operations are blocking calls that
 * the thread makes.
 *
 * A store that did not answer an exchange for a tenth of a second counts as failing for all
 * operations that were ready before the exchange began: otherwise each of them would find out by
 * itself, one after the other.
 */
#ifndef DL_DRIVER_H
#define DL_DRIVER_H

#include "client/client.h"
#include "hold/handle.h"

/* Begins the operation; see dlock_op_start. timeout_ms: resolved, not DLOCK_AS_OPTIONS. */
enum dlock_status dl_driver_start(struct dlock_handle *lock, enum dlock_op op, int64_t timeout_ms,
                                  struct dlock_error *err);

/* Begins to connect, by a thread of the driver: OPENED follows with OK. The client has no sessions
 * yet. */
enum dlock_status dl_driver_open(struct dlock_client *client, struct dlock_error *err);

/* Ends and joins the threads; no operation is in progress. Without the mutex. */
void dl_driver_stop(struct dlock_client *client);

/* Makes the first session of a client by the calling thread, in the time that dlock_client_open may
 * take. With open=lazy: nothing. */
enum dlock_status dl_driver_reach(struct dlock_client *client, struct dlock_error *err);

/* Fills the notice of OPENED, which was taken out of the queue. */
void dl_driver_opened_locked(const struct dlock_client *client, struct dlock_notice *notice);

#endif
