/* SPDX-License-Identifier: MIT */
/*
 * quorum.h - what the answers of N nodes mean together. Pure.
 *
 * A majority is counted over the configured nodes, never over the nodes that can be reached. Any
 * two majorities have a node in common: nothing else keeps two clients apart.
 */
#ifndef REDLOCK_QUORUM_H
#define REDLOCK_QUORUM_H

#include <stddef.h>
#include <stdint.h>

enum redlock_quorum_vote {
    QUORUM_OPEN,    /* may still answer in time */
    QUORUM_YES,     /* granted, renewed, released */
    QUORUM_NO,      /* held by another owner; not held by this token */
    QUORUM_REFUSED, /* certainly not executed: not reached, an error, no vote */
    QUORUM_SILENT   /* asked without an answer in time: executed, or later, or never */
};

struct redlock_quorum_tally {
    unsigned nodes, need;
    unsigned open, yes, no, refused, silent;
};

enum redlock_quorum_verdict {
    QUORUM_WAIT,  /* open nodes decide */
    QUORUM_WON,   /* a majority says yes */
    QUORUM_LOST,  /* no majority can say yes, because nodes say no */
    QUORUM_SHORT, /* no majority can say yes, because too few nodes can answer */
    QUORUM_UNSURE /* the silent nodes may make it a majority */
};

/* More than half of the nodes. */
unsigned redlock_quorum_need(unsigned nodes);

struct redlock_quorum_tally redlock_quorum_count(const enum redlock_quorum_vote *votes,
                                                 unsigned nodes);

/* The verdict on a request for a lock, as soon as the votes allow one. */
enum redlock_quorum_verdict redlock_quorum_acquired(const struct redlock_quorum_tally *tally);

/* The verdict on a renewal. LOST: so many nodes do not hold the token that no majority does. */
enum redlock_quorum_verdict redlock_quorum_renewed(const struct redlock_quorum_tally *tally);

/*
 * The verdict on a release. WON: a majority held the lease, or may have held it, and holds it no
 * more. LOST: no majority held it.
 */
enum redlock_quorum_verdict redlock_quorum_released(const struct redlock_quorum_tally *tally);

/* The greatest value that `need` of the values reach; 0: there are fewer values. Sorts them. */
int64_t redlock_quorum_least(int64_t *values, size_t count, unsigned need);

/* The least value that `need` of the values do not exceed; -1: there are fewer. Sorts them. */
int64_t redlock_quorum_latest(int64_t *values, size_t count, unsigned need);

#endif
