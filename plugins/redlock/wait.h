/* SPDX-License-Identifier: MIT */
/*
 * wait.h - waiting until a name is free for an attempt on a majority of the nodes: in a thread, for
 * slot watch, and without one, for slot wait_any.
 *
 * An attempt has a queue entry on each node, with the same ticket. It is told when a majority of
 * the nodes is free for it, and some time after a minority is. The entries of an attempt without a
 * thread are made by the trylock that was BUSY, and outlast the time until the next one.
 */
#ifndef REDLOCK_WAIT_H
#define REDLOCK_WAIT_H

#include "client.h"
#include "session.h"

/* The next request of the attempt is about to leave: what was heard is void [ANY-2]. */
void redlock_wait_ask(struct redlock_session *session, const struct dlock_request *req);

/* The answers were BUSY: enqueues the attempts, n of them, at most REDLOCK_BATCH_MOST, in one write
 * to each node. Without time or memory for that a grant gets DLOCK_GRANT_UNREPORTED. */
void redlock_wait_enqueue(struct redlock_session *session, const struct dlock_request *const *reqs,
                          struct dlock_grant *const *grants, size_t n);

/* Slot wait_any. */
enum dlock_status redlock_wait_any(void *self, uint32_t *numbers, size_t *count,
                                   int64_t deadline_ns, struct dlock_error *err);

/* Slots watch and interrupt. */
enum dlock_status redlock_wait_watch(void *self, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err);
void redlock_wait_interrupt(void *self, const struct dlock_request *req);

#endif
