/* SPDX-License-Identifier: MIT */
#include "sys/clock.h"

#include <errno.h>
#include <time.h>

static int64_t clock_read(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts); /* cannot fail: a valid id and a valid address */
    return (int64_t)ts.tv_sec * DL_NS_PER_S + ts.tv_nsec;
}

static int64_t boottime_now(void *ctx)
{
    (void)ctx;
    return clock_read(CLOCK_BOOTTIME);
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
    struct timespec left = {(time_t)(ns / DL_NS_PER_S), (long)(ns % DL_NS_PER_S)};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

int dl_cond_init(pthread_cond_t *cond)
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

void dl_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct dl_clock *clock,
                        int64_t deadline_ns)
{
    struct timespec until;
    int64_t left, wake;

    if (deadline_ns == DL_NEVER) {
        (void)pthread_cond_wait(cond, mutex);
        return;
    }
    left = deadline_ns - dl_clock_now(clock);
    if (left <= 0)
        return;
    if (left > DL_NS_PER_S)
        left = DL_NS_PER_S;
    wake = clock_read(CLOCK_MONOTONIC) + left;
    until.tv_sec = (time_t)(wake / DL_NS_PER_S);
    until.tv_nsec = (long)(wake % DL_NS_PER_S);
    (void)pthread_cond_timedwait(cond, mutex, &until);
}
