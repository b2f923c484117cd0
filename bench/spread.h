/* SPDX-License-Identifier: MIT */
/* spread.h - the median and the range of several rounds. */
#ifndef BENCH_SPREAD_H
#define BENCH_SPREAD_H

struct bench_spread {
    double median, min, max;
};

/* count: at least 1. */
struct bench_spread bench_spread_of(const double *values, int count);

#endif
