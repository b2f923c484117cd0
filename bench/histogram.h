/* SPDX-License-Identifier: MIT */
/*
 * histogram.h - a log-linear histogram of times. Its size is fixed, and it may lie in memory that
 * processes share. A quantile is at most 1/64 too large; the largest value is exact.
 */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

#define BENCH_SUB_BITS 6u /* sub-buckets of each power of two, as a power of two */
#define BENCH_BUCKETS  ((64u - BENCH_SUB_BITS + 1u) << BENCH_SUB_BITS)

/* A zeroed histogram is empty. */
struct bench_histogram {
    uint64_t count;
    uint64_t max;
    uint64_t buckets[BENCH_BUCKETS];
};

void bench_histogram_add(struct bench_histogram *histogram, uint64_t value);
void bench_histogram_merge(struct bench_histogram *into, const struct bench_histogram *from);

/* The smallest value not less than this share (0 to 1) of all values; 0: there are none. */
uint64_t bench_histogram_quantile(const struct bench_histogram *histogram, double share);

#endif
