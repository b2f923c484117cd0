/* SPDX-License-Identifier: MIT */
/* report.h - the figures as tables, JSON and CSV. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "plan.h"
#include "suite.h"

#include <stdio.h>

struct bench_report {
    const struct bench_plan *plan;
    const struct bench_options *options;
    int with_targets;
};

/* The number of cores that this process may use, and the kernel's version. */
int bench_machine_cores(void);
const char *bench_machine_kernel(void);

/* Prints targets, if there are any, and two tables for each workload: times, and costs. */
void bench_report_print(const struct bench_report *report, FILE *out);

/* One JSON object: medians with their range, and percentiles. One line a round, comma-separated.
 * -1: no memory, or it could not be written. */
int bench_report_json(const struct bench_report *report, FILE *out);
int bench_report_csv(const struct bench_report *report, FILE *out);

#endif
