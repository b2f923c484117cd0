/* SPDX-License-Identifier: MIT */
/* lease.h - slots of plugin.h: trylock, unlock, dequeue and break. */
#ifndef REDIS_LEASE_H
#define REDIS_LEASE_H

#include <dlock/plugin.h>

enum dlock_status redis_lease_trylock(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status redis_lease_unlock(void *self, const struct dlock_request *req,
                                     struct dlock_error *err);
enum dlock_status redis_lease_dequeue(void *self, const struct dlock_request *req,
                                      struct dlock_error *err);
enum dlock_status redis_lease_break(void *self, const unsigned char *name, uint32_t name_len,
                                    const char *owner, int64_t deadline_ns,
                                    struct dlock_error *err);

#endif
