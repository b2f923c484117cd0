/* SPDX-License-Identifier: MIT */
/* stopwatch.h - CLOCK_MONOTONIC, which is the same in all processes of a run. */
#ifndef BENCH_STOPWATCH_H
#define BENCH_STOPWATCH_H

#include <stdint.h>

#define BENCH_NS_PER_US INT64_C(1000)
#define BENCH_NS_PER_MS INT64_C(1000000)
#define BENCH_NS_PER_S  INT64_C(1000000000)

int64_t bench_now_ns(void);
void bench_sleep_ns(int64_t ns);

/* Sleeps without the 50 us by which the kernel may delay a timer. */
void bench_sleep_exactly_ns(int64_t ns);

#endif
