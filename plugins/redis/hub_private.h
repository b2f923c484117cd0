/* SPDX-License-Identifier: MIT */
/* hub_private.h - for hub.c (who is there), channel.c (the connection) and watch.c (waiting). */
#ifndef REDIS_HUB_PRIVATE_H
#define REDIS_HUB_PRIVATE_H

#include "hub.h"

struct redis_hub {
    struct redis_hub *next;        /* under the registry's mutex, as users */
    unsigned users;                /* sessions and waiters */
    const struct dlock_host *host; /* the client [HST-1] */
    struct redis_place place;
    struct tls *tls;
    char channel[REDIS_PREFIX_MAX + REDIS_HEX_SIZE];
    int wake_fd; /* eventfd: the reading thread has something else to do */

    pthread_mutex_t mutex; /* guards the rest */
    struct redis_waiter *waiters;
    bool reading;     /* a thread has the link to itself, with the mutex released */
    bool up;          /* subscribed */
    bool told;        /* the log has why not */
    uint64_t round;   /* counts subscriptions */
    int64_t retry_ns; /* no earlier than that after a failure */
    struct redis_link link;
    char why[160]; /* it is not up */
};

/* Takes in what has arrived, and notices an end. With the mutex held, which it releases meanwhile.
 */
void redis_hub_drain(struct redis_hub *hub);

/* Subscribes, unless that is done, is being done, or failed a moment ago. With the mutex held,
 * which it releases meanwhile. True: subscribed. */
bool redis_hub_subscribe(struct redis_hub *hub, int64_t deadline_ns);

/*
 * Reads until something arrived, the deadline, or a byte in wake_fd. With the mutex held and
 * `reading` not set; releases it meanwhile.
 */
void redis_hub_read(struct redis_hub *hub, int64_t deadline_ns);

/* Whoever stops reading wakes another one who watches and can. With the mutex held. */
void redis_hub_hand_over(struct redis_hub *hub);

#endif
