/* SPDX-License-Identifier: MIT */
/*
 * wait_any.h - attempts of a client that wait without a thread, for slot wait_any.
 *
 * The queue entries of such an attempt are made by the trylock that was BUSY, and outlast the time
 * until the next one. It is told when a majority of the nodes is free for it, and some time after a
 * minority is: as watch.c does for a thread.
 */
#ifndef REDLOCK_WAIT_ANY_H
#define REDLOCK_WAIT_ANY_H

#include "attempt.h"
#include "session.h"

/* The next request of the attempt is about to leave: what was heard is void [ANY-2]. */
void redlock_wait_any_ask(struct redlock_session *session, const struct dlock_request *req);

/* The answers were BUSY: enqueues the attempts, n of them, at most REDLOCK_BATCH_MOST, in one write
 * to each node. Without time or memory for that a grant gets DLOCK_GRANT_UNREPORTED. */
void redlock_wait_any_enqueue(struct redlock_session *session,
                              const struct dlock_request *const *reqs,
                              struct dlock_grant *const *grants, size_t n);

/* Slot wait_any. */
enum dlock_status redlock_wait_any(void *self, uint32_t *numbers, size_t *count,
                                   int64_t deadline_ns, struct dlock_error *err);

#endif
