/* SPDX-License-Identifier: MIT */
/*
 * renewer.h - the one thread of a client: renews leases in batches before they end, finds the
 * leases that have ended, and reports losses to the application (C5, C14).
 *
 * The thread starts with the first acquisition. It sleeps on a timer of CLOCK_BOOTTIME until the
 * next check is due (renew_schedule.h), so that it runs right after a suspend of the machine. A
 * lock and unlock without contention does not wake it.
 *
 * Its priority and its processors are those of the main thread of the process, as far as the system
 * allows, and not those of the thread that happened to take the first lock.
 *
 * The cost of one lease does not depend on the number of leases, but for two heaps and a pass over
 * all handles now and then: a client may have 100,000 handles.
 */
#ifndef DL_RENEWER_H
#define DL_RENEWER_H

#include "client/client.h"
#include "hold/handle.h"

/* Renewals that the application asks for; the renewer makes the others. */
enum dlock_status dl_renew(struct dlock_handle *lock, int64_t ttl_ms, struct dlock_error *err);
enum dlock_status dl_renew_downgrade(struct dlock_handle *lock, struct dlock_error *err);

/* Renews a lease that the handle, which is in a phase, does not hold yet, with or without an answer
 * by deadline_ns. Of the flags of the claim's request DLOCK_REQ_ADOPT counts. *valid_until_ns: in:
 * the end of the validity as far as it is known; out, with OK: the new end. *lease_ms: with OK: the
 * new lease. */
enum dlock_status dl_renew_first(struct dlock_handle *lock, int64_t deadline_ns, int64_t *lease_ms,
                                 int64_t *valid_until_ns, struct dlock_error *err);

/* Starts the thread unless it runs. OK or NOMEM. */
enum dlock_status dl_renewer_start_locked(struct dlock_client *client, struct dlock_error *err);

/* Ends and joins the thread. Without the mutex. */
void dl_renewer_stop(struct dlock_client *client);

/* Whether the calling thread is the renewer, which may not wait for itself. */
bool dl_renewer_is_self_locked(const struct dlock_client *client);

#endif
