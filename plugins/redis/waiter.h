/* SPDX-License-Identifier: MIT */
/*
 * waiter.h - an attempt that waits in the server's queue.
 *
 * The server tells a waiter of its grant by a message on the client's channel (subscriber.h). The
 * first watch of a client subscribes and then ends with BUSY: the message of a grant may have been
 * missed before.
 *
 * A lost message costs time, never a lock: a waiter asks the server, too. When the subscription
 * ends, every watch ends, so that all waiters ask.
 */
#ifndef REDIS_WAITER_H
#define REDIS_WAITER_H

#include "resp/subscriber.h"

struct redis_waiter;

/* dlock_request.attempt: zeroed by core. An attempt on a free name has no waiter. */
struct redis_slot {
    struct redis_waiter *waiter; /* NULL: no queue entry */
    bool interrupted;            /* sticky [INT-2]; under the subscriber's mutex */
    bool adopted;                /* the lease: what it was granted with is not known */
};

/* Receives messages for waiters. The owner of the subscriber is its session. */
extern const struct resp_subscriber_user redis_waiter_user;

/* Call it before a request for a queue entry is sent. False: no memory. */
bool redis_waiter_expect(struct resp_subscriber *subscriber, const struct dlock_request *req);

/* The server answered "queued", with the last fence: grants up to this fence have ended. promotion:
 * the replication id with the failover guard, else "": grants of other masters do not count [FO-9].
 */
void redis_waiter_queued(struct resp_subscriber *subscriber, struct redis_slot *slot,
                         uint64_t counter, const char *promotion);

/* The attempt waits no more. Harmless without a waiter. */
void redis_waiter_free(struct redis_slot *slot);

/* Slot watch. UNAVAILABLE: not a waiter. Without a subscription it ends at the deadline, and the
 * caller asks. */
enum dlock_status redis_waiter_watch(struct resp_subscriber *subscriber,
                                     const struct dlock_request *req, struct dlock_grant *grant,
                                     struct dlock_error *err);
void redis_waiter_interrupt(struct resp_subscriber *subscriber, struct redis_slot *slot);

/* Slot wait_any. */
enum dlock_status redis_waiter_any(struct resp_subscriber *subscriber, uint32_t *numbers,
                                   size_t *count, int64_t deadline_ns, struct dlock_error *err);

#endif
