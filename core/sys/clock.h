/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the only place that reads a clock.
 *
 * Leases and deadlines are on CLOCK_BOOTTIME: it counts suspend and never steps. A client carries
 * a struct dl_clock, so that a test can put its own time there.
 */
#ifndef DL_CLOCK_H
#define DL_CLOCK_H

#include "lib/time.h"
#include <pthread.h>
#include <stdint.h>

#define DL_NEVER INT64_MAX

struct dl_clock {
    int64_t (*now_ns)(void *ctx);
    void *ctx;
};

extern const struct dl_clock dl_clock_boottime;

static inline int64_t dl_clock_now(const struct dl_clock *clock)
{
    return clock->now_ns(clock->ctx);
}

/* The earlier, the later of two moments or the shorter, the longer of two times. */
static inline int64_t dl_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t dl_later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* now + ms, saturating at DL_NEVER; ms < 0 is for ever. */
int64_t dl_clock_after_ms(int64_t now_ns, int64_t ms);

/* Sleeps. */
void dl_clock_pause(int64_t ns);

/* Waits on cond, made by dl_deadline_cond_init, until it is signalled or the clock passes
 * deadline_ns (DL_NEVER: no bound). May return early: the caller tests its condition and the time
 * again. */
void dl_clock_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct dl_clock *clock,
                   int64_t deadline_ns);

#endif
