/* SPDX-License-Identifier: MIT */
/* lease_batch.h - slots of plugin.h: trylock_batch and unlock_batch. All scripts leave in one
 * write. */
#ifndef REDIS_LEASE_BATCH_H
#define REDIS_LEASE_BATCH_H

#include <dlock/plugin.h>

enum dlock_status redis_lease_batch_trylock(void *self, struct dlock_batch_op *const *ops, size_t n,
                                            struct dlock_error *err);
enum dlock_status redis_lease_batch_unlock(void *self, struct dlock_batch_op *const *ops, size_t n,
                                           struct dlock_error *err);

#endif
