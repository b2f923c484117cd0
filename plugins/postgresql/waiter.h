/* SPDX-License-Identifier: MIT */
/*
 * waiter.h - an attempt that waits in the store's queue.
 *
 * The waiter is listed before its request leaves, so that a grant that is faster than the answer
 * finds it [WAT-2]. If the client was not listening then, the next watch begins to listen and ends
 * with BUSY: a grant may have come unheard.
 *
 * A waiter keeps what the sessions of the client share: core may close all of them meanwhile.
 */
#ifndef PG_WAITER_H
#define PG_WAITER_H

#include "row_listener.h"
#include "session.h"

/* Before a request with ENQUEUE or REFRESH leaves. OK sets *to: where to tell of the grant, NULL:
 * nowhere. NOMEM otherwise. */
enum dlock_status pg_waiter_expect(struct pg_shared *shared, const struct dlock_request *req,
                                   const char **to, struct dlock_error *err);

/* The store answered "queued" and showed its counter: grants up to that have run out. Harmless for
 * an attempt that did not expect it. Returns whether a message can tell of the grant [ANY-4]. */
bool pg_waiter_queued(struct pg_slot *slot, uint64_t counter);

/* The attempt waits no more: OK of trylock, unlock, dequeue, forget. Harmless when nothing was set
 * up. */
void pg_waiter_free(struct pg_slot *slot);

#endif
