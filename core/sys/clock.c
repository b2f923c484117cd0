/* SPDX-License-Identifier: MIT */
#include "sys/clock.h"

#include <errno.h>
#include <time.h>

static int64_t boottime_now(void *ctx)
{
    (void)ctx;
    return dl_time_now_ns(CLOCK_BOOTTIME);
}

const struct dl_clock dl_clock_boottime = {boottime_now, NULL};

int64_t dl_clock_after_ms(int64_t now_ns, int64_t ms)
{
    if (ms < 0 || ms > (DL_NEVER - now_ns) / DL_NS_PER_MS)
        return DL_NEVER;
    return now_ns + ms * DL_NS_PER_MS;
}

void dl_clock_pause(int64_t ns)
{
    struct timespec left = dl_time_spec(ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

void dl_clock_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct dl_clock *clock,
                   int64_t deadline_ns)
{
    if (deadline_ns == DL_NEVER)
        (void)pthread_cond_wait(cond, mutex);
    else
        dl_deadline_cond_wait(cond, mutex, deadline_ns - dl_clock_now(clock));
}
