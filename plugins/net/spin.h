/* SPDX-License-Identifier: MIT */
/*
 * spin.h - whether to poll for an answer for some microseconds before sleeping for it.
 *
 * On a fast network most of a round trip is the sleep and the wake-up. Therefore a waiting thread
 * polls for a while, if recent answers have come within tens of microseconds: never with one
 * processor, never longer than SPIN_MOST_NS, and at most in as many threads of the process as half
 * of the processors. Where polling is often in vain, as on a busy machine, the next SPIN_REST
 * answers are slept for before polling is tried again.
 *
 * Pure, except for the count of polling threads. Times are arguments, in ns of any clock that does
 * not step.
 */
#ifndef NET_SPIN_H
#define NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define SPIN_MOST_NS   INT64_C(100000)
#define SPIN_ANSWER_NS INT64_C(150000) /* answers that are slower on average are slept for */
#define SPIN_REST      256
#define SPIN_CREDIT    16 /* the most; success earns 1, polling in vain costs SPIN_PRICE */
#define SPIN_PRICE     4

struct spin {
    unsigned processors; /* fewer than 2: never */
    int64_t average_ns;  /* of the answers so far; 0: none */
    int64_t begun_ns;    /* when this wait began */
    int64_t until_ns;
    bool counted; /* in the count of polling threads */
    bool tried;   /* this wait began with polling */
    int credit;
    unsigned rest; /* waits to sleep through */
};

/* The number of processors that this process may use. */
unsigned spin_processors(void);

/* processors: 0 for never. */
void spin_init(struct spin *spin, unsigned processors);

/* A wait begins. */
void spin_begin(struct spin *spin, int64_t now_ns);
/* True: poll once more. False: sleep. */
bool spin_more(struct spin *spin, int64_t now_ns);
/* The wait is over. answered: with an answer. */
void spin_end(struct spin *spin, int64_t now_ns, bool answered);

#endif
