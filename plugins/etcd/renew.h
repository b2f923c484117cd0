/* SPDX-License-Identifier: MIT */
/*
 * renew.h - slot renew: keeps leases alive, and reads whether their keys are still there.
 *
 * A waiter's key has a short lease, so that a waiter that dies delays the others little. When it
 * holds the name and is renewed for longer, the key gets another lease. A downgrade puts it as a
 * reader's. The create_revision stays, and with it the key's position. A Put happens only if the
 * key is as it was read, so that a delayed request undoes no later one.
 */
#ifndef ETCD_RENEW_H
#define ETCD_RENEW_H

#include "queue.h"

enum dlock_status etcd_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                             int64_t deadline_ns, struct dlock_error *err);

#endif
