/* SPDX-License-Identifier: MIT */
#include "stopwatch.h"

#include <sys/prctl.h>
#include <time.h>

int64_t bench_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * BENCH_NS_PER_S + now.tv_nsec;
}

void bench_sleep_ns(int64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / BENCH_NS_PER_S),
                            .tv_nsec = (long)(ns % BENCH_NS_PER_S)};

    while (ns > 0 && nanosleep(&left, &left) != 0)
        continue;
}

void bench_sleep_exactly_ns(int64_t ns)
{
    if (ns <= 0)
        return;
    (void)prctl(PR_SET_TIMERSLACK, 1);
    bench_sleep_ns(ns);
    (void)prctl(PR_SET_TIMERSLACK, 0); /* the measured code sleeps as in any program */
}
