/* SPDX-License-Identifier: MIT */
#include "net/nap.h"

#define NS_PER_S INT64_C(1000000000)

void nap_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

struct timespec nap_slice(int64_t left_ns)
{
    int64_t slice_ns = left_ns < NS_PER_S ? left_ns : NS_PER_S;

    if (slice_ns < 0)
        slice_ns = 0;
    return (struct timespec){.tv_sec = slice_ns / NS_PER_S, .tv_nsec = slice_ns % NS_PER_S};
}

void nap_until(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct dlock_host *host,
               int64_t deadline_ns)
{
    struct timespec slice = nap_slice(deadline_ns - host->now_ns(host->ctx)), until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += slice.tv_sec;
    until.tv_nsec += slice.tv_nsec;
    if (until.tv_nsec >= NS_PER_S) {
        until.tv_nsec -= NS_PER_S;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(cond, mutex, &until);
}
