/* SPDX-License-Identifier: MIT */
/* renew.h - slot renew: asks whether nodes are still there, and the leader for it. */
#ifndef ZK_RENEW_H
#define ZK_RENEW_H

#include "session.h"

enum dlock_status zk_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                           int64_t deadline_ns, struct dlock_error *err);

#endif
