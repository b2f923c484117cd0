/* SPDX-License-Identifier: MIT */
/*
 * spin.h - whether to look again and again for an answer before sleeping for it.
 *
 * On a fast network most of a round trip is the sleep and the wake-up. So whoever waits looks a
 * while, as long as answers have come within tens of microseconds lately: never with one processor,
 * never longer than SPIN_MOST_NS, and no more threads of the process at it than half the
 * processors. Where looking is often in vain, as on a machine that has other things to do, it
 * sleeps for the next SPIN_REST answers before it tries that again.
 *
 * Pure but for that count. Moments are arguments, in ns of any clock that does not step.
 */
#ifndef NET_SPIN_H
#define NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define SPIN_MOST_NS   INT64_C(100000)
#define SPIN_ANSWER_NS INT64_C(150000) /* slower ones, on average, are slept for */
#define SPIN_REST      256
#define SPIN_CREDIT    16 /* at most; an answer seen earns 1, one in vain costs SPIN_PRICE */
#define SPIN_PRICE     4

struct spin {
    unsigned processors; /* fewer than 2: never */
    int64_t average_ns;  /* of the answers so far; 0: none */
    int64_t begun_ns;    /* of the present wait */
    int64_t until_ns;
    bool counted; /* among those who spin now */
    bool tried;   /* the present wait began so */
    int credit;
    unsigned rest; /* waits to sleep through */
};

/* That this process may run on. */
unsigned spin_processors(void);

/* processors: 0 for never. */
void spin_init(struct spin *spin, unsigned processors);

/* A wait begins. */
void spin_begin(struct spin *spin, int64_t now_ns);
/* Whether to look once more instead of sleeping. */
bool spin_more(struct spin *spin, int64_t now_ns);
/* It is over; answered: with an answer. */
void spin_end(struct spin *spin, int64_t now_ns, bool answered);

#endif
