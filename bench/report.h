/* SPDX-License-Identifier: MIT */
/* report.h - targets and figures, for people and for programs. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "plan.h"

#include <stdio.h>

struct bench_report {
    const char *program;
    const struct bench_case *cases;
    const struct bench_target *targets;
    int case_count, target_count;
    const struct bench_options *options;
    const struct bench_figures *figures;
};

/* Two tables: targets with what was measured, and the figures of all cases. */
void bench_report_print(const struct bench_report *report, FILE *out);

/* One JSON object with the same. -1: no memory, or it could not be written. */
int bench_report_json(const struct bench_report *report, FILE *out);

#endif
