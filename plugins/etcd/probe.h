/* SPDX-License-Identifier: MIT */
/* probe.h - slot probe: asks every member of the URI. */
#ifndef ETCD_PROBE_H
#define ETCD_PROBE_H

#include "session.h"

#define ETCD_CAPS                                                                         \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | \
     DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_CONCURRENT |    \
     DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA)

#define ETCD_TTL_MOST_MS                                                    \
    (INT64_C(7) * 24 * 3600 * 1000) /* etcd grants more; dlock does not ask \
                                     */

/* Of the member in use, and what the cluster grants. */
void etcd_probe_info(struct etcd_session *session, const struct etcd_member *member,
                     struct dlock_session_info *info);

/* OK if one member at least can serve. */
enum dlock_status etcd_probe(void *self, int64_t deadline_ns, struct dlock_session_info *info,
                             dlock_check_fn *fn, void *arg, struct dlock_error *err);

#endif
