/* SPDX-License-Identifier: MIT */
#include "lib/time.h"

int64_t dl_time_now_ns(clockid_t clock)
{
    struct timespec ts = {0};

    (void)clock_gettime(clock, &ts); /* cannot fail: the clocks that we name exist */
    return ts.tv_sec * DL_NS_PER_S + ts.tv_nsec;
}

struct timespec dl_time_spec(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / DL_NS_PER_S),
                             .tv_nsec = (long)(ns % DL_NS_PER_S)};
}

int dl_deadline_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc != 0)
        return rc;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return rc;
}

static int64_t slice_ns(int64_t left_ns)
{
    if (left_ns < 0)
        return 0;
    return left_ns < DL_NS_PER_S ? left_ns : DL_NS_PER_S;
}

void dl_deadline_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t left_ns)
{
    struct timespec until;

    if (left_ns <= 0)
        return;
    until = dl_time_spec(dl_time_now_ns(CLOCK_MONOTONIC) + slice_ns(left_ns));
    (void)pthread_cond_timedwait(cond, mutex, &until);
}

struct timespec dl_deadline_cond_slice(int64_t left_ns)
{
    return dl_time_spec(slice_ns(left_ns));
}
