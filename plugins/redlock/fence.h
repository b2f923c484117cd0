/* SPDX-License-Identifier: MIT */
/*
 * fence.h - the fencing token of a lock that a majority holds, in the round trip that takes it.
 *
 * The client asks for a number: the latest clock that it expects of any node, in microseconds. Each
 * node that sets the key gives the lease that number, unless it has to be greater: above the
 * numbers that the node gave before, of which it keeps the greatest one for a day, and not below
 * the node's clock. If a majority gave one number, this is the fencing token. Else the client asks
 * the nodes to raise the number of the lease, and the claim begins when a majority has it.
 *
 * A claim counts only if its numbers lie before clock + ttl of each node of that majority. So the
 * clock of a node that forgot all has passed them when it votes again after its guard time. Any two
 * majorities have a node in common: a later claim has a greater number, whatever the clocks of
 * different nodes are, and also if a clock is set back by less than a day in all, unless its node
 * forgets as well. models/redlock_fence.pml checks this.
 */
#ifndef REDLOCK_FENCE_H
#define REDLOCK_FENCE_H

#include "config.h"

#include <stdatomic.h>

#define REDLOCK_FENCE_NUMBERS 32 /* of a lease: one for each thread that it is handed to */
#define REDLOCK_FENCE_MOST    (INT64_C(1) << 53) /* a script counts exactly up to here */

/* What a node said of the lease that it holds; clock_us 0: the node does not hold it. */
struct redlock_fence_vote {
    int64_t number;
    int64_t clock_us; /* of the node, when the lease began there */
};

struct redlock_fence_choice {
    int64_t number;  /* 0: the clocks are too far apart for the ttl */
    unsigned agreed; /* how many nodes have this number, and count */
    unsigned behind; /* bits: nodes with a smaller number, which count once they have this one */
};

/* The least number to which `need` of the nodes can be brought. */
struct redlock_fence_choice redlock_fence_choose(const struct redlock_fence_vote *votes,
                                                 unsigned count, unsigned need, int64_t ttl_ms);
/* The least time between the clocks of `need` of the nodes that voted; 0: fewer voted. */
int64_t redlock_fence_spread_us(const struct redlock_fence_vote *votes, unsigned count,
                                unsigned need);
/* The least time by which the numbers of `need` of the nodes that voted are ahead of the node's
 * clock, which was set back if that is long; 0: fewer voted, or they are not ahead. */
int64_t redlock_fence_ahead_us(const struct redlock_fence_vote *votes, unsigned count,
                               unsigned need);

/* How far the nodes' clocks are ahead of ours, with the way of a request; 0: not known. Zeroed at
 * first; thread-safe. */
struct redlock_fence_clocks {
    _Atomic int64_t ahead_us[REDLOCK_NODES_MAX];
};

/* The node's clock in INFO, whose answer was read at read_ns; 0: INFO has none. Counts only if
 * nothing is known of the node. */
void redlock_fence_first(struct redlock_fence_clocks *clocks, unsigned node, int64_t clock_us,
                         int64_t read_ns);
/* A node read its clock for a request that was sent at sent_ns. */
void redlock_fence_note(struct redlock_fence_clocks *clocks, unsigned node, int64_t clock_us,
                        int64_t sent_ns);
/* The number to ask for. 0: too little is known; each node answers with its own. */
int64_t redlock_fence_guess(const struct redlock_fence_clocks *clocks, unsigned count,
                            unsigned need, int64_t ttl_ms, int64_t now_ns);

#endif
