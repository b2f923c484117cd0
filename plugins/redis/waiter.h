/* SPDX-License-Identifier: MIT */
/*
 * waiter.h - an attempt that waits in the server's queue.
 *
 * The server grants a name to a waiter by a message on the client's channel (subscriber.h). The
 * first watch of a client subscribes, and ends with BUSY then: a grant may have gone unheard
 * before.
 *
 * A lost message costs time, never a lock: a waiter asks the server, too. When the subscription
 * ends, every watch ends, so that all waiters ask.
 */
#ifndef REDIS_WAITER_H
#define REDIS_WAITER_H

#include "resp/subscriber.h"

struct redis_waiter;

/* dlock_request.attempt: zeroed by core. A lease that was free when it was asked for has no waiter.
 */
struct redis_slot {
    struct redis_waiter *waiter; /* NULL: no queue entry */
    bool interrupted;            /* sticky [INT-2]; under the subscriber's mutex */
};

/* Messages for waiters. owner of the subscriber: its config. */
extern const struct resp_subscriber_user redis_waiter_user;

/* Before a request for a queue entry leaves. False: no memory. */
bool redis_waiter_expect(struct resp_subscriber *subscriber, struct redis_slot *slot,
                         const unsigned char *token);

/* The server answered "queued" and showed its counter: grants up to that have run out. */
void redis_waiter_queued(struct resp_subscriber *subscriber, struct redis_slot *slot,
                         uint64_t counter);

/* The attempt waits no more. Harmless when nothing was set up. */
void redis_waiter_free(struct redis_slot *slot);

/* Slot watch. UNAVAILABLE: not a waiter. While nothing can tell it of grants, it ends at the
 * deadline, so that asking is left. */
enum dlock_status redis_waiter_watch(struct resp_subscriber *subscriber,
                                     const struct dlock_request *req, struct dlock_grant *grant,
                                     struct dlock_error *err);
void redis_waiter_interrupt(struct resp_subscriber *subscriber, struct redis_slot *slot);

#endif
