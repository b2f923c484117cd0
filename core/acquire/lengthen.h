/* SPDX-License-Identifier: MIT */
/*
 * lengthen.h - renews a lease before the caller gets it: a queue of the store grants leases that
 * are shorter than the ttl, and the renewer may not be there to renew such a lease in time.
 */
#ifndef DL_LENGTHEN_H
#define DL_LENGTHEN_H

#include "acquire/acquire_fsm.h"
#include "hold/handle.h"

/* Whether dl_lengthen would renew the lease. */
bool dl_lengthen_is_due(const struct dlock_handle *lock, const struct dl_acquire_fsm *attempt,
                        int64_t lease_ms, int64_t now_ns);

/*
 * Renews the lease of an attempt that is done, if the lease is shorter than the ttl, the call has
 * time to do so, and the renewer will not renew it in time or too little is left of it
 * (dl_handle_least_ns); reports the result to the attempt. The wait for the answer takes at most
 * half of the time that the lease can spare; without an answer the lease is used as it is, unless
 * too little is left. *now_ns: the time after the wait. true: the attempt goes on.
 */
bool dl_lengthen(struct dlock_handle *lock, struct dl_acquire_fsm *attempt, int64_t *lease_ms,
                 int64_t *now_ns, struct dlock_error *err);

#endif
