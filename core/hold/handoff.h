/* SPDX-License-Identifier: MIT */
/*
 * handoff.h - a released lease may go to the next thread of the same client, with no exchange.
 *
 * The first in the name's queue gets the whole claim: token, slot, session and what is left of the
 * lease; the giver gets the receiver's unused claim. Each turn has a fencing token of its own, from
 * the block that came with the grant (C6). The bounds keep others from starving: a number of turns;
 * and a time in all, which is short once the store is known to have other waiters, and somewhat
 * longer where it does not know.
 * A lease that the store has not confirmed for a second goes back: it may have been broken since,
 * and another client may hold the name. A claim whose token the application has seen goes back to
 * the store: that token must not hold anything afterwards (C7).
 */
#ifndef DL_HANDOFF_H
#define DL_HANDOFF_H

#include "hold/handle.h"

/* What a hand-off is decided by; all of it known without I/O. */
struct dl_handoff_input {
    uint32_t handoffs, handoffs_most;   /* had, and allowed by both handles */
    uint64_t fence;                     /* of the grant; 0: it had none */
    uint32_t fence_room;                /* numbers after it that belong to the grant */
    int64_t now_ns, contended_since_ns; /* crowded since; DL_NEVER: not */
    int64_t left_ns, ttl_ns;            /* of the lease */
    int64_t confirmed_ns;               /* when the store confirmed it last */
};

/* Pure. */
bool dl_handoff_allowed(const struct dl_handoff_input *input);

/* Hands the lease of lock, which is held and about to be released, on. false: it cannot. With the
 * mutex held. */
bool dl_handoff_locked(struct dlock *lock, int64_t now_ns);

#endif
