/* SPDX-License-Identifier: MIT */
/* watch.h - slots watch and interrupt: waits for the end of the node before ours. */
#ifndef ZK_WATCH_H
#define ZK_WATCH_H

#include "session.h"

enum dlock_status zk_watch(void *self, const struct dlock_request *req, struct dlock_grant *grant,
                           struct dlock_error *err);
void zk_watch_interrupt(void *self, const struct dlock_request *req);

#endif
