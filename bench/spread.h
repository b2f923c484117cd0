/* SPDX-License-Identifier: MIT */
/* spread.h - what several rounds say: the median, and how far they are apart. */
#ifndef BENCH_SPREAD_H
#define BENCH_SPREAD_H

struct bench_spread {
    double median, min, max;
};

/* Of count values, at least one. */
struct bench_spread bench_spread_of(const double *values, int count);

#endif
