/* SPDX-License-Identifier: MIT */
#include "my.h"

#include <time.h>

int my_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int failed = 0;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    failed = pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return failed;
}

struct timespec my_until(int64_t left_ns)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    if (left_ns < 0)
        left_ns = 0;
    left_ns += until.tv_nsec;
    until.tv_sec += left_ns / MY_NS_PER_S;
    until.tv_nsec = left_ns % MY_NS_PER_S;
    return until;
}
