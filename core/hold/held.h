/* SPDX-License-Identifier: MIT */
/*
 * held.h - the changes of a lease while the handle has it: granted, renewed, doubtful, lost, ended.
 * Functions whose names end in _locked are called with the client's mutex held.
 */
#ifndef DL_HELD_H
#define DL_HELD_H

#include "hold/handle.h"

/* Counts the handle among the holders of its name, or no longer; the latter wakes the waiters of
 * the name. Does nothing if that is so already. */
void dl_held_count_locked(struct dlock_handle *lock);
void dl_held_uncount_locked(struct dlock_handle *lock);
void dl_held_count_moved_locked(struct dlock_handle *from, struct dlock_handle *to);

/* Admits the next waiters of the name's local queue, and wakes all admitted ones. */
void dl_held_admit_locked(struct dlock_handle *lock);

/* Acquires a recursive handle again. OK: counted. NOT_HELD: the handle is not recursive or not
 * held. */
enum dlock_status dl_held_again_locked(struct dlock_handle *lock, enum dlock_mode mode,
                                       struct dlock_error *err);

/* The release of the present acquisition keeps the name for keep_ms from its beginning on. Takes
 * the mutex. OK, NOT_HELD, INVALID, UNSUPPORTED. */
enum dlock_status dl_held_keep(struct dlock_handle *lock, int64_t keep_ms, struct dlock_error *err);

/* The attempt was granted; until_ns: the end of the validity, which is long enough (C3). */
void dl_held_granted_locked(struct dlock_handle *lock, int64_t now_ns, int64_t until_ns,
                            const struct dlock_grant *grant);

/* A renewal that was sent at sent_ns has ended with status. Returns OK: extended; LOST; or status:
 * the old validity stays. LOST with *stale: the store did extend the lease, but too late; it has to
 * be given back. */
enum dlock_status dl_held_renewed_locked(struct dlock_handle *lock, int64_t sent_ns, int64_t now_ns,
                                         enum dlock_status status, const struct dlock_grant *grant,
                                         bool *stale);

/* The number of other waiters of all clients, from an answer to this handle; UINT32_MAX: not known.
 * If this handle does not use the store's queue, others may not use it, either. */
uint32_t dl_held_waiters(const struct dlock_handle *lock, const struct dlock_grant *grant);

/* Checks a handle that is due in early_ns at the latest. true: renew it now. */
bool dl_held_due_locked(struct dlock_handle *lock, int64_t now_ns, int64_t early_ns);

/* The call on the handle is over: ends its phase. */
void dl_held_idle_locked(struct dlock_handle *lock);

/* Why a lease is lost of which the store says that it is not there. */
static inline enum dlock_reason dl_held_reason_gone(const struct dlock_handle *lock)
{
    return dl_client_has(lock->client, DLOCK_CAP_SESSION) ? DLOCK_REASON_SESSION
                                                          : DLOCK_REASON_TAKEN;
}

/* Counts and logs a loss that is found now. */
void dl_held_lost_locked(struct dlock_handle *lock, enum dlock_reason reason, int64_t now_ns);

/* Ends the lease as lost, and reports the loss unless it was reported. */
void dl_held_lose_locked(struct dlock_handle *lock, enum dlock_reason reason, int64_t now_ns);

/* The claim has run out, and the store need not know. A lease that lives in the client's session,
 * or has no ttl, does not end by its time: it is given back [TET-1]. */
void dl_held_run_out_locked(struct dlock_handle *lock);

/* Fills the notice of the loss that this node of a handle stands for. */
void dl_held_event_locked(struct dl_event_node *node, struct dlock_notice *notice);

/* Makes the claim shared; the next renewals tell the store until one is confirmed. */
void dl_held_downgrade_locked(struct dlock_handle *lock);

/* Ends the lease in the handle and in the schedule. The name counts the handle as a holder until
 * the store knows. */
void dl_held_end_locked(struct dlock_handle *lock, int64_t now_ns);

#endif
