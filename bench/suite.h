/* SPDX-License-Identifier: MIT */
/*
 * suite.h - named workloads, and targets. A target is a bound for the figure of a case, or for its
 * ratio to another case's figure of the same round.
 */
#ifndef BENCH_SUITE_H
#define BENCH_SUITE_H

#include "plan.h"

/* The values of --threads and similar options. */
struct bench_size {
    int threads, processes, readers, leases;
    int64_t held_ns, pause_ns;
};

extern const struct bench_size bench_size_default;

/* The workload with this name in this size, with at most BENCH_WORKERS_MAX workers. 0, or -1: there
 * is none. */
int bench_workload_named(const char *name, const struct bench_size *size,
                         struct bench_workload *workload);

/* The number-th name and its meaning; NULL: there are no more. */
const char *bench_workload_name(int number, const char **meaning);

/* Adds all cases for the targets and the plots of docs/benchmarks.md, for stores with the labels of
 * scripts/bench. */
extern const struct bench_workload bench_suite[];
extern const int bench_suite_count;

#define BENCH_LIBRARY "libdlock.so" /* the file, whose size is a figure, too */

struct bench_side {
    const char *subject, *workload; /* NULL: nothing */
    enum bench_metric metric;
};

struct bench_target {
    const char *id, *text, *unit;
    int at_least; /* non-zero: a lower bound, else an upper one */
    double bound;
    /* (of - less) / (over + plus - less) */
    struct bench_side of, over, plus, less;
};

extern const struct bench_target bench_targets[];
extern const int bench_target_count;

/* Zero: its cases were left out, or could not be measured. */
int bench_target_spread(const struct bench_target *target, const struct bench_plan *plan,
                        struct bench_spread *spread);

/* Judges the median. */
int bench_target_met(const struct bench_target *target, const struct bench_spread *spread);

#endif
