/* SPDX-License-Identifier: MIT */
/*
 * unlock_batch.h - exchanges for releases: of one lease, or of many by the slot unlock_batch.
 */
#ifndef DL_UNLOCK_BATCH_H
#define DL_UNLOCK_BATCH_H

#include "hold/handle.h"
#include "hold/release_fsm.h"

/* Most elements of a batch: what is sent together is answered together, and a store with one thread
 * serves others only before and after it. */
#define DL_BATCH_MOST 64

/* Deadlines of one batch differ by this at most [BAT-3]. An exchange that begins at the deadline of
 * a call and one to withdraw the request have 40 ms each: with this they fit into the 100 ms of C8.
 */
#define DL_BATCH_SPREAD_NS (DL_GRACE_NS / 2)

/* One release. */
struct dl_release {
    struct dlock_handle *lock;
    struct dlock_error *err;
    struct dl_release_fsm fsm;
    bool alone; /* a thread of the driver makes it, which must not wait for others */
};

/* Whether the plugin has the slots, and the client can use them. */
bool dl_unlock_batch_is_there(const struct dlock_client *client);

/* Of each deadline to that of the first element of a batch: no two differ by more than the spread.
 */
bool dl_unlock_batch_is_close(int64_t a_ns, int64_t b_ns);

/* Makes one exchange for n releases of one client, at most DL_BATCH_MOST. All are in
 * DL_RELEASE_SEND, with deadlines that are close. */
void dl_unlock_batch_send(struct dl_release *const *releases, size_t n);

/* Makes the exchange of one release, which is in DL_RELEASE_SEND. Threads that want to make theirs
 * at the same time share one, if the client can. */
void dl_unlock_batch_step(struct dl_release *release);

#endif
