/* SPDX-License-Identifier: MIT */
/*
 * attempt.h - one attempt to get a lock, and the lease that comes of it: dlock_request.slot.
 *
 * A late grant belongs to an attempt that lives, or is given back.
 */
#ifndef REDLOCK_ATTEMPT_H
#define REDLOCK_ATTEMPT_H

#include "client.h"

/* Zeroed by core. Only the thread of the attempt uses it, but for the waiter. */
struct redlock_attempt {
    uint32_t round;    /* of the last request for the lock */
    int64_t number;    /* of the lease: the fencing token; 0: it has none, or is not known */
    int64_t clock_ms;  /* the latest clock that a node reported */
    int64_t ticket_ms; /* orders the waiters; 0: this one has no queue entry yet */
    unsigned rechecks; /* in a row that found no majority free */
    struct resp_waiter waiter; /* recheck: nodes that are free for it, as far as known */
    /* Of wait_any.h; under the mutex of the waiters. */
    bool waits;         /* the last answer was BUSY */
    bool due;           /* recheck_ns has come */
    int64_t recheck_ns; /* when to ask again although too few nodes are free; 0: they are not */
};

/* The attempt lives from now on, if it does not live already. */
void redlock_attempt_begin(struct redlock_client *client, struct redlock_attempt *attempt,
                           const unsigned char *token);
/* Harmless for an attempt that does not live. */
void redlock_attempt_end(struct redlock_attempt *attempt);
bool redlock_attempt_lives(struct redlock_client *client, const unsigned char *token);

#endif
