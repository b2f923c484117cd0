/* SPDX-License-Identifier: MIT */
/*
 * quorum.h - what the answers of N nodes mean together. Pure.
 *
 * A majority is counted over the configured nodes, never over those that can be reached: any two
 * majorities have a node in common, which is all that keeps two clients apart.
 */
#ifndef REDLOCK_QUORUM_H
#define REDLOCK_QUORUM_H

#include <stddef.h>
#include <stdint.h>

enum quorum_vote {
    QUORUM_OPEN,    /* may still answer in time */
    QUORUM_YES,     /* granted, renewed, released */
    QUORUM_NO,      /* held by somebody else; not held by this token */
    QUORUM_REFUSED, /* certainly not executed: not reached, an error, no vote */
    QUORUM_SILENT   /* asked, but no answer came in time: executed or not, now or later */
};

struct quorum_tally {
    unsigned nodes, need;
    unsigned open, yes, no, refused, silent;
};

enum quorum_verdict {
    QUORUM_WAIT,  /* for open nodes */
    QUORUM_WON,   /* a majority says yes */
    QUORUM_LOST,  /* no majority can say yes, because of those that say no */
    QUORUM_SHORT, /* no majority can say yes, because too few can answer at all */
    QUORUM_UNSURE /* the silent ones could make it a majority */
};

/* More than half of them. */
unsigned quorum_need(unsigned nodes);

struct quorum_tally quorum_count(const enum quorum_vote *votes, unsigned nodes);

/* Of a request for a lock: decided as soon as it can be, either way. */
enum quorum_verdict quorum_acquired(const struct quorum_tally *tally);

/* Of a renewal: LOST when so many do not hold the token that no majority does. */
enum quorum_verdict quorum_renewed(const struct quorum_tally *tally);

/*
 * Of a release. WON: it was held by a majority, or may have been, and a majority holds it no more.
 * LOST: no majority held it.
 */
enum quorum_verdict quorum_released(const struct quorum_tally *tally);

/* The value that `need` of these are not below; 0 when there are fewer. Sorts them. */
int64_t quorum_least(int64_t *values, size_t count, unsigned need);

/* The moment by which `need` of these have passed; -1 when there are fewer. Sorts them. */
int64_t quorum_latest(int64_t *values, size_t count, unsigned need);

#endif
