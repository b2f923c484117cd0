/* SPDX-License-Identifier: MIT */
/*
 * Deadlines that a program under the shim hands down are on the clock that it read: they are moved
 * back to the true one, when the wait begins. A step during the wait does not reach the kernel.
 */
#include "skew_shim.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>

/* A deadline on the true clock. */
static struct timespec true_deadline(clockid_t id, const struct timespec *deadline)
{
    return skew_added(deadline, -skew_offset(id));
}

/* Which clock the condition variable was made with: glibc 2.25 and later keep it in this bit. */
static clockid_t cond_clock(const pthread_cond_t *cond)
{
    return cond->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

SHIM_EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict cond,
                                       pthread_mutex_t *restrict mutex,
                                       const struct timespec *restrict deadline)
{
    SHIM_REAL(pthread_cond_timedwait)
    struct timespec at = true_deadline(cond_clock(cond), deadline);

    return call(cond, mutex, &at);
}

SHIM_EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict cond,
                                       pthread_mutex_t *restrict mutex, clockid_t id,
                                       const struct timespec *restrict deadline)
{
    SHIM_REAL(pthread_cond_clockwait)
    struct timespec at = true_deadline(id, deadline);

    return call(cond, mutex, id, &at);
}

SHIM_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex,
                                        const struct timespec *restrict deadline)
{
    SHIM_REAL(pthread_mutex_timedlock)
    struct timespec at = true_deadline(CLOCK_REALTIME, deadline);

    return call(mutex, &at);
}

SHIM_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t id,
                                        const struct timespec *restrict deadline)
{
    SHIM_REAL(pthread_mutex_clocklock)
    struct timespec at = true_deadline(id, deadline);

    return call(mutex, id, &at);
}

SHIM_EXPORT int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict deadline)
{
    SHIM_REAL(sem_timedwait)
    struct timespec at = true_deadline(CLOCK_REALTIME, deadline);

    return call(sem, &at);
}

SHIM_EXPORT int sem_clockwait(sem_t *restrict sem, clockid_t id,
                              const struct timespec *restrict deadline)
{
    SHIM_REAL(sem_clockwait)
    struct timespec at = true_deadline(id, deadline);

    return call(sem, id, &at);
}

SHIM_EXPORT int clock_nanosleep(clockid_t id, int flags, const struct timespec *deadline,
                                struct timespec *left)
{
    SHIM_REAL(clock_nanosleep)
    struct timespec at = *deadline;

    if (flags & TIMER_ABSTIME)
        at = true_deadline(id, deadline);
    return call(id, flags, &at, left);
}

/* The kernel tells which clock a timerfd has: "clockid: 1". */
static clockid_t timer_clock(int fd)
{
    char path[64], line[128];
    FILE *info;
    clockid_t id = CLOCK_REALTIME;

    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    info = fopen(path, "re");
    if (info == NULL)
        return id;
    while (fgets(line, sizeof line, info) != NULL)
        if (strncmp(line, "clockid: ", 9) == 0)
            id = (clockid_t)(line[9] - '0');
    (void)fclose(info);
    return id;
}

SHIM_EXPORT int timerfd_settime(int fd, int flags, const struct itimerspec *value,
                                struct itimerspec *old)
{
    SHIM_REAL(timerfd_settime)
    struct itimerspec at = *value;

    /* Zero disarms. */
    if ((flags & TFD_TIMER_ABSTIME) && (at.it_value.tv_sec != 0 || at.it_value.tv_nsec != 0))
        at.it_value = true_deadline(timer_clock(fd), &value->it_value);
    return call(fd, flags, &at, old);
}
