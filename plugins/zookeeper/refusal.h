/* SPDX-License-Identifier: MIT */
/* refusal.h - nodes that were made and have to go: the answer of slot trylock waits for that. */
#ifndef ZK_REFUSAL_H
#define ZK_REFUSAL_H

#include "session.h"

enum zk_refusal_reason {
    ZK_ADMITTED,        /* the node may stay */
    ZK_HELD,            /* by another node: BUSY. What the slot waits for is kept for slot watch */
    ZK_USED_UP,         /* the sequences of the name: CONFIG */
    ZK_OTHER_LIMIT,     /* of the name: CONFIG */
    ZK_NOT_TO_BE_LISTED /* the children of the name cannot be read */
};

struct zk_refusal {
    enum zk_refusal_reason reason;
    uint32_t limit; /* of ZK_OTHER_LIMIT: that of the name */
    int rc;         /* of ZK_NOT_TO_BE_LISTED */
    struct zk_attempt *attempt;
    enum dlock_status status; /* out; of zk_slot_delete, if the node may still be there */
};

/* Deletes the nodes of all, in one flight for those of one session. n: ZK_FLIGHT_MOST at most. */
void zk_refusal_delete(struct zk_refusal *const *refusals, size_t n);

#endif
