/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the time of leases, which all processes of a host share, and the time of deadlines.
 *
 * Leases are counted on CLOCK_BOOTTIME of the initial time namespace: it counts suspend and is
 * never set. The boot id tells the leases of two boots apart.
 */
#ifndef SQLITE_CLOCK_H
#define SQLITE_CLOCK_H

#include "lib/time.h"

#include <dlock/plugin.h>
#include <stdbool.h>
#include <time.h>

#define SQ_BOOT_SIZE 16

struct sqlite_clock {
    int64_t offset_ns; /* of this process's time namespace */
    unsigned char boot[SQ_BOOT_SIZE];
};

/* CONFIG: this process cannot know the time that other processes see. */
enum dlock_status sqlite_clock_init(struct sqlite_clock *clock, struct dlock_error *err);

/* The time of leases: the same in every process of this boot. */
int64_t sqlite_clock_now(const struct sqlite_clock *clock);

int64_t sqlite_clock_wall_us(void);

/* The time of deadlines: CLOCK_BOOTTIME of this process. */
int64_t sqlite_clock_boottime(void);

/* The deadline that is left_ns away, a year at most. */
int64_t sqlite_clock_until(int64_t left_ns);

/* The deadline until_ns, or a second from now if that is earlier, on CLOCK_MONOTONIC for futexes.
 * That clock stops while the machine is suspended: compare with sqlite_clock_boottime after each
 * wait. */
struct timespec sqlite_clock_futex(int64_t until_ns);

/* Sleeps for a while that grows with round (0, 1, ...) and ends at until_ns. False: until_ns has
 * passed. */
bool sqlite_clock_nap(int round, int64_t until_ns);

static inline int64_t sqlite_clock_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
