/* SPDX-License-Identifier: MIT */
/*
 * renew.h - renewals that the application asks for; the renewer makes the others.
 */
#ifndef DL_RENEW_H
#define DL_RENEW_H

#include "hold/handle.h"

enum dlock_status dl_renew(struct dlock *lock, int64_t ttl_ms, struct dlock_error *err);
enum dlock_status dl_downgrade(struct dlock *lock, struct dlock_error *err);

/*
 * Renews a lease that the handle, in a phase, does not hold yet, answered or not by deadline_ns.
 * *valid_until_ns: as far as we know. OK: that and *lease_ms are what it is worth now.
 */
enum dlock_status dl_renew_first(struct dlock *lock, int64_t deadline_ns, int64_t *lease_ms,
                                 int64_t *valid_until_ns, struct dlock_error *err);

/* Makes the request of a handle that is held that of a renewal. With the mutex held. */
void dl_renew_prepare_locked(struct dlock *lock);

#endif
