/* SPDX-License-Identifier: MIT */
/* keep.h - how long a run keeps its name after the command: --keep, --once-per, --keep-always. */
#ifndef CLI_KEEP_H
#define CLI_KEEP_H

#include "args.h"

struct keep {
    int64_t keep_ms;   /* --keep: from the acquisition on; 0: not given */
    int64_t period_ms; /* --once-per: to the end of the period; 0: not given */
    bool always;       /* --keep-always: also if the command fails */
    bool started;      /* the command was started */
};

/* Clocks that were read one after the other, in nanoseconds. */
struct keep_clocks {
    int64_t before_ns; /* CLOCK_BOOTTIME */
    int64_t wall_ns;   /* since 1970-01-01 00:00 UTC */
    int64_t after_ns;  /* CLOCK_BOOTTIME */
};

/* Reads them. */
void keep_clocks_read(struct keep_clocks *clocks);

/* Options that exclude each other. -1: go on, with the longest time that may be kept in options;
 * else the exit code. names: how many the run has. */
int keep_check(const struct keep *keep, const struct cli *cli, struct dlock_options *options,
               size_t names);

/*
 * How long a name stays taken that was acquired less than a millisecond after since_ns of
 * CLOCK_BOOTTIME: never shorter than to the end of its period, and longer by two milliseconds and
 * the time that the reading of the clocks took at most. An acquisition in the last millisecond of a
 * period may count for the next one. Periods are counted from 1970, so that all hosts have the same
 * ones.
 */
int64_t keep_ms_since(const struct keep *keep, int64_t since_ns, const struct keep_clocks *clocks);

/* The command has ended: true if the release of the lock will keep the name. A lock that was lost
 * keeps nothing. */
bool keep_apply(const struct keep *keep, struct dlock_handle *lock, bool succeeded);

#endif
