/* SPDX-License-Identifier: MIT */
/*
 * watch.h - slots watch and interrupt: waits for the end of the key that stands before ours.
 *
 * A watch of etcd begins at the present revision: one from the past is served by a loop of the
 * server that runs ten times a second. So the client asks once more where its key stands, if the
 * cluster has changed between the answer that named the predecessor and the beginning of the watch.
 * It asks again after each event, since the predecessor may have left the queue without holding.
 */
#ifndef ETCD_WATCH_H
#define ETCD_WATCH_H

#include "queue.h"

enum dlock_status etcd_watch(void *self, const struct dlock_request *req, struct dlock_grant *grant,
                             struct dlock_error *err);
void etcd_watch_interrupt(void *self, const struct dlock_request *req);

#endif
