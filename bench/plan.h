/* SPDX-License-Identifier: MIT */
/*
 * plan.h - cases that are run in alternated rounds, and the figures that they give; targets, which
 * compare figures with numbers or with each other in the same round.
 */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include "crew.h"
#include "spread.h"

#define BENCH_ROUNDS_MAX 99

/* Where a case keeps its locks: for each run a new place. */
enum bench_store { BENCH_NO_STORE, BENCH_MEMORY, BENCH_SQLITE, BENCH_FILE };

struct bench_case {
    const char *name;
    const struct bench_work *work;
    enum bench_store store;
    struct bench_load load;
};

enum bench_metric {
    BENCH_RATE, /* pairs a second */
    BENCH_SHARE,
    BENCH_P50_US,
    BENCH_P99_US,
    BENCH_WORST_MS,
    BENCH_ALLOCATIONS,
    BENCH_METRICS
};

struct bench_figures {
    int rounds; /* 0: was left out */
    double values[BENCH_METRICS][BENCH_ROUNDS_MAX];
};

struct bench_target {
    const char *id, *text, *unit;
    enum bench_metric metric;
    int at_least; /* non-zero: a lower bound, else an upper one */
    double bound;
    int of, over; /* indices of cases; over: -1, or what the figure is divided by */
};

struct bench_options {
    int rounds;
    int64_t duration_ns;   /* of one run */
    const char *directory; /* for stores in files; what is made there stays */
    const char *only;      /* NULL, or a part of the names of the cases to be run */
    int busy;              /* processes that keep processors busy meanwhile */
    void (*progress)(const struct bench_case *which, int round); /* or NULL */
};

/* 0, or -1 and why of BENCH_WHY_SIZE. */
int bench_plan_run(const struct bench_case *cases, int count, const struct bench_options *options,
                   struct bench_figures *figures, char *why);

/* Zero: the cases that it takes were left out, or it could not be measured. */
int bench_target_spread(const struct bench_target *target, const struct bench_figures *figures,
                        struct bench_spread *spread);

/* By the median. */
int bench_target_met(const struct bench_target *target, const struct bench_spread *spread);

#endif
