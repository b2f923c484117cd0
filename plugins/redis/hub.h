/* SPDX-License-Identifier: MIT */
/*
 * hub.h - the place of a client where grants arrive.
 *
 * The server grants a name to a waiter by a message on the client's channel, which one connection
 * of the client is subscribed to from the first watch on; that watch ends at once, because a grant
 * may have gone unheard before. There is no thread for it: of the threads
 * that watch, one reads for all, and hands that over when its own wait is over.
 *
 * A message that is lost costs time, never a lock: whoever waits asks the server, too. After the
 * connection was lost every watch ends, so that they all ask. A connection that dies in silence is
 * found by a ping.
 *
 * The hub's mutex is a leaf, and is never held during I/O.
 */
#ifndef REDIS_HUB_H
#define REDIS_HUB_H

#include "redis.h"

#include <pthread.h>

/* dlock_request.attempt: of one attempt. Zeroed by core. A lease that was free when it was asked
 * for, of which there may be many, has no waiter. */
struct redis_slot {
    struct redis_waiter *waiter; /* NULL: it has no place in a queue, and was not interrupted */
};

/* An attempt that may be in a queue. Guarded by the hub's mutex. */
struct redis_waiter {
    struct redis_waiter *next, **at; /* at: what points to it */
    struct redis_hub *hub;           /* that lists it; NULL: it is closed */
    char token[RESP_HEX_SIZE];
    bool interrupted;       /* sticky [INT-2] */
    bool watching, reading; /* reading: or connecting */
    uint64_t round;         /* the subscription in force when the last request left; 0: none */
    uint64_t seen;          /* the counter in the last answer "queued" [WAT-4] */
    uint64_t fence;         /* of the last grant that arrived; 0: none */
    int64_t lease_ms;       /* ... */
    pthread_cond_t wake;
};

struct redis_hub {
    const struct dlock_host *host;
    const struct resp_config *place;
    const struct tls *tls;
    char channel[RESP_PREFIX_MAX + RESP_HEX_SIZE];
    int wake_fd; /* eventfd: the reading thread has something else to do */

    pthread_mutex_t mutex; /* guards the rest */
    struct redis_waiter *waiters;
    struct redis_waiter *spare; /* NULL, or one that waits for its next use */
    bool reading;               /* a thread has the link to itself, with the mutex released */
    bool up;                    /* subscribed */
    bool told;                  /* the log has why not */
    uint64_t round;             /* counts subscriptions */
    bool ended_soon;            /* the last one */
    int64_t up_ns;              /* since then */
    int64_t heard_ns;           /* the last bytes came then */
    int64_t pinged_ns;          /* not answered yet; 0: nothing is to be answered */
    int64_t retry_ns;           /* no earlier than that after a failure */
    struct redis_link link;
    char why[160]; /* it is not up */
};

/* OK or NOMEM; redis_hub_fini in either case. */
enum dlock_status redis_hub_init(struct redis_hub *hub, const struct dlock_host *host,
                                 const struct resp_config *place, const struct tls *tls,
                                 struct dlock_error *err);
void redis_hub_fini(struct redis_hub *hub);
/* In a forked child, instead of fini: gives descriptors back, and no memory. */
void redis_hub_abandon(struct redis_hub *hub);

/* Before a request for a place leaves: lists a waiter. Returns the channel to be told by; NULL: no
 * memory. */
const char *redis_hub_expect(struct redis_hub *hub, struct redis_slot *slot,
                             const unsigned char *token);

/* The server answered "queued" and showed its counter: grants up to that have run out. */
void redis_hub_queued(struct redis_hub *hub, struct redis_slot *slot, uint64_t counter);

/* The attempt waits no more. Harmless when nothing was set up. */
void redis_hub_forget(struct redis_slot *slot);

/* slot watch; UNAVAILABLE: not a waiter. While nobody can tell it ends at the deadline, so that
 * asking is left. */
enum dlock_status redis_hub_watch(struct redis_hub *hub, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err);
void redis_hub_interrupt(struct redis_hub *hub, struct redis_slot *slot);

#endif
