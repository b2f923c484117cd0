/* SPDX-License-Identifier: MIT */
/*
 * hub.h - what a client has once for all its sessions: where the nodes are, and which attempts
 * live.
 *
 * A release on a node tells the first waiter in its queue by a message (subscriber.h). A waiter
 * keeps in mind which nodes may be free for it, and tries when they are a majority.
 *
 * A lost message costs time, never a lock: a waiter asks the nodes, too.
 */
#ifndef REDLOCK_HUB_H
#define REDLOCK_HUB_H

#include "redlock.h"
#include "resp/subscriber.h"

struct redlock_hub;

/* dlock_request.attempt: one attempt. Zeroed by core. */
struct redlock_attempt {
    /* Of the thread that makes the attempt: */
    uint32_t round;    /* of the last request for the lock */
    int64_t clock_ms;  /* the latest that a node showed */
    int64_t ticket_ms; /* the place among those who wait; 0: none yet */
    unsigned looks;    /* in vain, since something changed */

    struct resp_waiter waiter; /* recheck: nodes that are free for it, as far as known */
};

/* The hub of this client, made if need be, which the caller then is one user of. NULL: err says why
 * (NOMEM; INVALID: the URI, certificates). */
struct redlock_hub *redlock_hub_join(const struct dlock_host *host,
                                     const struct dlock_target *target, struct dlock_error *err);
void redlock_hub_leave(struct redlock_hub *hub);
/* In a forked child, instead of leave: gives descriptors back, and no memory. */
void redlock_hub_abandon(struct redlock_hub *hub);

/* True once, of all sessions of the client. */
bool redlock_hub_first(struct redlock_hub *hub);

const struct redlock_place *redlock_hub_place(const struct redlock_hub *hub);
/* What nodes have yet to be told. */
struct redlock_pending *redlock_hub_pending(struct redlock_hub *hub);
const struct tls *redlock_hub_tls(const struct redlock_hub *hub);

/* Whether the name was held when it was asked for last, by this client, or one with the same hash.
 */
bool redlock_hub_was_busy(struct redlock_hub *hub, const unsigned char *name, uint32_t name_len);
void redlock_hub_note_busy(struct redlock_hub *hub, const unsigned char *name, uint32_t name_len,
                           bool busy);

/* Connections to all nodes that no session uses. False: there are enough of them, and the caller
 * keeps his. */
bool redlock_hub_keep(struct redlock_hub *hub, struct redlock_node *nodes);
/* NULL: none are there. */
struct redlock_node *redlock_hub_take(struct redlock_hub *hub);

/* The attempt lives until redlock_hub_end, which is harmless twice. */
void redlock_hub_begin(struct redlock_hub *hub, struct redlock_attempt *attempt,
                       const unsigned char *token);
void redlock_hub_end(struct redlock_attempt *attempt);
bool redlock_hub_lives(struct redlock_hub *hub, const unsigned char *token);
struct resp_subscriber *redlock_hub_subscriber(struct redlock_hub *hub);

#endif
