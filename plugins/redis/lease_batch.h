/* SPDX-License-Identifier: MIT */
/* lease_batch.h - slots of plugin.h: trylock_batch and unlock_batch. Names that are free, or that
 * nobody waits for, share scripts. All scripts leave in one write; names that have to go
 * their own way after a shared one leave in a second write. */
#ifndef REDIS_LEASE_BATCH_H
#define REDIS_LEASE_BATCH_H

#include <dlock/plugin.h>

enum dlock_status redis_lease_batch_trylock(void *self, struct dlock_batch_op *const *ops, size_t n,
                                            struct dlock_error *err);
enum dlock_status redis_lease_batch_unlock(void *self, struct dlock_batch_op *const *ops, size_t n,
                                           struct dlock_error *err);

#endif
