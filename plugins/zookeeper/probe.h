/* SPDX-License-Identifier: MIT */
/* probe.h - slot probe: what each server says of itself. */
#ifndef ZK_PROBE_H
#define ZK_PROBE_H

#include "session.h"

/* What the session gives now. */
void zk_probe_info(struct zk_session *session, struct dlock_session_info *info);
enum dlock_status zk_probe(void *self, int64_t deadline_ns, struct dlock_session_info *info,
                           dlock_check_fn *fn, void *arg, struct dlock_error *err);

#endif
