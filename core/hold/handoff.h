/* SPDX-License-Identifier: MIT */
/*
 * handoff.h - a hand-off: an unlock gives the lease to the next thread of the same client, with no
 * exchange.
 *
 * The first waiter of the name gets the whole claim: token, memory of the plugin, session and the
 * rest of the lease; the giver gets the unused claim of the receiver. Each hand-off has a fence of
 * its own, from the block of fences that came with the grant (C6). Two limits keep other clients
 * from starving: a number of hand-offs, and a total time, which is short if the store reports other
 * waiters, and somewhat longer if the store does not know. A lease that the store has not confirmed
 * for a second goes back: it may have been broken since, and another client may hold the name. A
 * claim whose token the application has read goes back to the store: that token must not hold
 * anything afterwards (C7). The permits of a semaphore go back, too, so that a waiter gets the
 * lowest one that is free (C21), and so does a name that is to be kept (C22).
 */
#ifndef DL_HANDOFF_H
#define DL_HANDOFF_H

#include "hold/handle.h"

/* What decides on a hand-off; all of it is known without I/O. */
struct dl_handoff_input {
    uint32_t handoffs, handoffs_most;   /* hand-offs so far, and the limit of both handles */
    uint64_t fence;                     /* of the grant; 0: none */
    uint32_t fence_room;                /* number of fences after it that belong to the grant */
    int64_t now_ns, contended_since_ns; /* see name_state.h */
    int64_t left_ns, ttl_ns;            /* of the lease */
    int64_t confirmed_ns;               /* when the store confirmed the lease last */
};

/* Pure. */
bool dl_handoff_allowed(const struct dl_handoff_input *input);

/* Whether a hand-off by lock is possible now, and would leave a queue entry in the store: that of
 * the receiver. */
bool dl_handoff_withdraws_locked(struct dlock_handle *lock, int64_t now_ns);

/* Hands on the lease of lock, which is held and about to be released. false: it is not possible. */
bool dl_handoff_locked(struct dlock_handle *lock, int64_t now_ns);

#endif
