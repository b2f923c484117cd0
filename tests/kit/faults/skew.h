/* SPDX-License-Identifier: MIT */
/*
 * skew.h - the clocks of another process, or of this one, wrong by what a test says, each alone.
 *
 * A program that runs with libdlockskew.so preloaded and DLOCK_SKEW_FILE in its environment reads
 * clocks that are off by what stands in that file, which a test maps and writes at any time:
 *
 *     dlt_skew_open(&skew, path);
 *     dlt_skew_preload(path);             the environment of programs started from now on
 *     ... start the program ...
 *     dlt_skew_step(&skew, CLOCK_BOOTTIME, 10 * 1000000000LL);         ten seconds of suspend
 *
 * What the shim cannot do is in README.md: the kernel's own clocks go on as they are.
 */
#ifndef DLT_SKEW_H
#define DLT_SKEW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The file. Offsets in ns; reads count what the shim answered. */
struct dlt_skew_page {
    _Atomic int64_t offset_ns[3]; /* enum dlt_skew_clock */
    _Atomic uint64_t reads[3];
};

enum dlt_skew_clock { DLT_SKEW_REALTIME, DLT_SKEW_MONOTONIC, DLT_SKEW_BOOTTIME, DLT_SKEW_NONE };

/* Which offset counts for a clock of clock_gettime; NONE: processor time and others. */
static inline enum dlt_skew_clock dlt_skew_clock_of(clockid_t id)
{
    switch (id) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI:
        return DLT_SKEW_REALTIME;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
        return DLT_SKEW_MONOTONIC;
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM:
        return DLT_SKEW_BOOTTIME;
    default:
        return DLT_SKEW_NONE;
    }
}

struct dlt_skew {
    struct dlt_skew_page *page;
};

/* Maps the file at path, which is made if it is not there. False: errno. */
bool dlt_skew_open(struct dlt_skew *skew, const char *path);
void dlt_skew_close(struct dlt_skew *skew);

/* Puts the shim and the file into this process's environment, for programs that it starts. */
bool dlt_skew_preload(const char *path);

/* id: CLOCK_REALTIME, CLOCK_MONOTONIC or CLOCK_BOOTTIME. In force for the next read of the clock.
 */
void dlt_skew_set(struct dlt_skew *skew, clockid_t id, int64_t offset_ns);
void dlt_skew_step(struct dlt_skew *skew, clockid_t id, int64_t by_ns);
/* How often the clock was read through the shim. */
uint64_t dlt_skew_reads(const struct dlt_skew *skew, clockid_t id);

/* A clock as the kernel has it, for tests that are under the shim themselves. */
int64_t dlt_skew_true_ns(clockid_t id);

#endif
