/* SPDX-License-Identifier: MIT */
/* hub_private.h - for hub.c (who is there), channel.c (the connection) and watch.c (waiting). */
#ifndef REDIS_HUB_PRIVATE_H
#define REDIS_HUB_PRIVATE_H

#include "hub.h"

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
