/* SPDX-License-Identifier: MIT */
/*
 * unlock_batch.h - one exchange with the store for the releases of many unlocks, by the slot
 * unlock_batch.
 */
#ifndef DL_UNLOCK_BATCH_H
#define DL_UNLOCK_BATCH_H

#include "hold/unlock.h"

/* Most elements of a batch: what is sent together is answered together, and a store with one thread
 * serves others only before and after it. */
#define DL_BATCH_MOST 64

/* Deadlines of one batch differ by this at most [BAT-3]. An exchange that begins at the deadline of
 * a call and one to withdraw the request have 40 ms each: with this they fit into the 100 ms of C8.
 */
#define DL_BATCH_SPREAD_NS (DL_GRACE_NS / 2)

/* Makes one exchange for the releases of n unlocks of one client, at most DL_BATCH_MOST. All are in
 * DL_RELEASE_SEND, with deadlines that are close. A release that ends has its status. */
void dl_unlock_batch_send(struct dl_unlock *const *unlocks, size_t n);

#endif
