/* SPDX-License-Identifier: MIT */
/* renew.h - slot renew: keeps leases alive, and reads whether their keys are still there. */
#ifndef ETCD_RENEW_H
#define ETCD_RENEW_H

#include "slot.h"

enum dlock_status etcd_renew(struct etcd_session *session, struct dlock_lease_op *const *ops,
                             size_t n, int64_t deadline_ns, struct dlock_error *err);

#endif
