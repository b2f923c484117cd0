/* SPDX-License-Identifier: MIT */
/* vote.h - which server is the master, from what the sentinels answer. Pure. */
#ifndef REDIS_VOTE_H
#define REDIS_VOTE_H

#include "net/address.h"

struct redis_vote {
    bool given;            /* this sentinel answered */
    struct address master; /* where it sends clients */
    int64_t epoch;         /* config-epoch: the number of the failover that made it the master */
};

/*
 * The master is the address that at least `majority` sentinels name, and of several such addresses
 * the one with the greatest epoch, and of equal epochs the one with most votes. Returns the index
 * of a vote for it, and sets *voters to the number of its votes; -1: there is no such address.
 */
int redis_vote_elect(const struct redis_vote *votes, unsigned count, unsigned majority,
                     unsigned *voters);

#endif
