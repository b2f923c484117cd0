/* SPDX-License-Identifier: MIT */
/*
 * lengthen.h - a queue of the store grants leases that are shorter than the ttl; such a lease is
 * renewed before the caller gets it, unless the renewer will renew it in time.
 */
#ifndef DL_LENGTHEN_H
#define DL_LENGTHEN_H

#include "acquire/acquire_fsm.h"
#include "hold/handle.h"

/* Whether the lease that the attempt got is shorter than asked for, nobody will change that in
 * time, and there is time to do so. */
bool dl_lengthen_due(const struct dlock *lock, const struct dl_acquire_fsm *attempt,
                     const struct dlock_grant *grant, int64_t now_ns);

/* Renews it, and tells the attempt what it holds now. Without an answer the lease is used as it is:
 * half of what can be spared is spent on waiting for one. */
void dl_lengthen(struct dlock *lock, struct dl_acquire_fsm *attempt, struct dlock_grant *grant,
                 int64_t now_ns, struct dlock_error *err);

#endif
