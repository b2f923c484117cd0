/* SPDX-License-Identifier: MIT */
/*
 * renew.h - renewals that the application asks for; the keeper makes the others.
 */
#ifndef DL_RENEW_H
#define DL_RENEW_H

#include "lock.h"

enum dlock_status dl_renew(struct dlock *lock, int64_t ttl_ms, struct dlock_error *err);
enum dlock_status dl_downgrade(struct dlock *lock, struct dlock_error *err);

/* One renewal of a handle in a phase, answered or not by deadline_ns, with the request that
 * dl_renew_prepare_locked made. Returns when it was sent, the rest is in *op. */
int64_t dl_renew_send(struct dlock *lock, int64_t deadline_ns, struct dlock_lease_op *op,
                      struct dlock_error *err);

/* The same for a lease that the handle does not hold yet, valid until valid_until_ns as far as we
 * know. */
int64_t dl_renew_send_first(struct dlock *lock, int64_t valid_until_ns, int64_t deadline_ns,
                            struct dlock_lease_op *op, struct dlock_error *err);

/* Makes the request of a handle that is held that of a renewal. With the mutex held. */
void dl_renew_prepare_locked(struct dlock *lock);

#endif
