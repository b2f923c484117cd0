/* SPDX-License-Identifier: MIT */
/* entry.h - the queue entries of an attempt: one on each node, with the same ticket. */
#ifndef REDLOCK_ENTRY_H
#define REDLOCK_ENTRY_H

#include "attempt.h"
#include "session.h"

/* Enqueues the attempt on all nodes for lasts_ms, or refreshes its entries. Returns bits of the
 * nodes that are free for it. */
unsigned redlock_entry_take(struct redlock_session *session, const struct dlock_request *req,
                            int64_t lasts_ms);

/* When to ask again while some nodes are free, but too few: the holder on another node may go
 * without a message. */
int64_t redlock_entry_recheck_ns(const struct redlock_session *session,
                                 const struct redlock_attempt *attempt);

#endif
