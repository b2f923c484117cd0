/* SPDX-License-Identifier: MIT */
/* standing.h - how a store stands against other libraries on the same servers. */
#ifndef BENCH_STANDING_H
#define BENCH_STANDING_H

#include "suite.h"

struct bench_standing {
    const struct bench_subject *rival; /* the one with the best median */
    struct bench_spread ratio; /* how many times better dlock is, by rounds: of rates dlock over the
                                * rival, of times the rival over dlock */
    int ahead;                 /* non-zero: dlock is not worse in the median */
};

/* Of the figure that the target is about, under its workload. 0: no rival was measured there, or
 * rivals have no such figure. */
int bench_standing_of(const struct bench_target *target, const struct bench_plan *plan,
                      struct bench_standing *standing);

#endif
