/* SPDX-License-Identifier: MIT */
/* renew.h - slot renew. */
#ifndef REDIS_RENEW_H
#define REDIS_RENEW_H

#include <dlock/plugin.h>

enum dlock_status redis_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                              int64_t deadline_ns, struct dlock_error *err);

#endif
