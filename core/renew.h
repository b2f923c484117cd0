/* SPDX-License-Identifier: MIT */
/*
 * renew.h - renewals that the application asks for; the keeper makes the others.
 */
#ifndef DL_RENEW_H
#define DL_RENEW_H

#include "lock.h"

enum dlock_status dl_renew(struct dlock *lock, int64_t ttl_ms, struct dlock_error *err);
enum dlock_status dl_downgrade(struct dlock *lock, struct dlock_error *err);

/* One renewal of a handle that is held and in a phase. OK; LOST; or the old validity stands. */
enum dlock_status dl_renew_exchange(struct dlock *lock, struct dlock_error *err);

/* The same without a look at the lease: returns when it was sent, the rest is in *op. */
int64_t dl_renew_send(struct dlock *lock, struct dlock_lease_op *op, struct dlock_error *err);

/* Makes the request that of a renewal. With the mutex held. */
void dl_renew_prepare_locked(struct dlock *lock);

#endif
