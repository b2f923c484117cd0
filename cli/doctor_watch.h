/* SPDX-License-Identifier: MIT */
/*
 * doctor_watch.h - `dlock doctor --watch`: at each interval it takes the canary lock (canary.h),
 * probes the store, and compares the clocks of this host; prints a line, and writes the metrics.
 */
#ifndef CLI_DOCTOR_WATCH_H
#define CLI_DOCTOR_WATCH_H

#include "metrics_file.h"

/* Returns the exit code: 0 after SIGTERM or SIGINT; or of the failure that kept it from beginning.
 * A store that fails later is reported, and asked again. */
int doctor_watch(struct cli *cli, int64_t every_ms, struct metrics_file *metrics);

#endif
