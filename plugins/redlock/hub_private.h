/* SPDX-License-Identifier: MIT */
/* hub_private.h - for hub.c (who is there), channel.c (the connections) and watch.c (waiting). */
#ifndef REDLOCK_HUB_PRIVATE_H
#define REDLOCK_HUB_PRIVATE_H

#include "hub.h"

#define HUB_BUCKETS 64 /* a power of 2 */
#define HUB_SPARE   4
#define HUB_NAMES   256 /* a power of 2 */

struct redlock_hub {
    struct redlock_hub *next;      /* under the registry's mutex, as users */
    unsigned users;                /* sessions and attempts */
    const struct dlock_host *host; /* the client [HST-1] */
    struct redlock_place place;
    struct tls *tls;
    struct redlock_pending pending;
    char channel[RESP_PREFIX_MAX + RESP_HEX_SIZE];
    int wake_fd; /* eventfd: the reading thread has something else to do */
    _Atomic unsigned char busy[HUB_NAMES]; /* by names' hashes; a hint */
    _Atomic bool opened;                   /* by redlock_hub_first */

    pthread_mutex_t mutex;                         /* guards the rest */
    struct redlock_attempt *attempts[HUB_BUCKETS]; /* by token */
    struct redlock_node *ears; /* subscribed, one a node; NULL: nobody has waited yet */
    unsigned hears;            /* bits: nodes whose messages arrive */
    int64_t settled_ns;        /* until then no further ear is about to hear */
    bool reading;              /* a thread has the ears, with the mutex released */
    struct redlock_node *spare[HUB_SPARE];
    _Atomic unsigned spare_count; /* a forked child looks at them without the mutex */
};

/* All of the following with the mutex held. */

struct redlock_attempt **redlock_hub_bucket(struct redlock_hub *hub, const unsigned char *token);

/* Makes the ears; false: no memory. */
bool redlock_hub_listen(struct redlock_hub *hub);

/* Sleeps until something may have changed for the attempt, or until_ns; releases the mutex
 * meanwhile. One thread reads for all: it takes in what has arrived, and reconnects what was lost.
 */
void redlock_hub_sleep(const struct redlock_session *session, struct redlock_attempt *attempt,
                       int64_t until_ns);

/* Whoever stops reading wakes another one who watches and can. */
void redlock_hub_hand_over(struct redlock_hub *hub);

#endif
