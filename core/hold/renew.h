/* SPDX-License-Identifier: MIT */
/*
 * renew.h - renewals that the application asks for; the renewer makes the others (renew_batch.h).
 */
#ifndef DL_RENEW_H
#define DL_RENEW_H

#include "hold/handle.h"

enum dlock_status dl_renew(struct dlock_handle *lock, int64_t ttl_ms, struct dlock_error *err);
enum dlock_status dl_renew_downgrade(struct dlock_handle *lock, struct dlock_error *err);

/* Renews a lease that the handle, which is in a phase, does not hold yet, with or without an answer
 * by deadline_ns. Of the flags of the claim's request DLOCK_REQ_ADOPT counts. *valid_until_ns: in:
 * the end of the validity as far as it is known; out, with OK: the new end. *lease_ms: with OK: the
 * new lease. */
enum dlock_status dl_renew_first(struct dlock_handle *lock, int64_t deadline_ns, int64_t *lease_ms,
                                 int64_t *valid_until_ns, struct dlock_error *err);

/* Sets the request of a handle that is held to a renewal. */
void dl_renew_prepare_locked(struct dlock_handle *lock);

#endif
