/* SPDX-License-Identifier: MIT */
/*
 * plan.h - cases, which are run in alternated rounds, and the figures that they give.
 *
 * A case is a subject (what is measured) under a workload (what it has to do). All subjects of a
 * workload run one after the other, in each round beginning with another one, so that those that
 * are compared met the same machine.
 */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include "address.h"
#include "crew.h"
#include "spread.h"

#define BENCH_ROUNDS_MAX 25
#define BENCH_LABEL_SIZE 80

enum bench_role { BENCH_DLOCK, BENCH_LIMIT, BENCH_RIVAL };

struct bench_rival; /* rival.h */

struct bench_subject {
    char label[BENCH_LABEL_SIZE];
    char uri[600]; /* as in struct bench_place */
    enum bench_role role;
    enum bench_kind kind;
    const struct bench_work *work;   /* NULL: a rival */
    const struct bench_rival *rival; /* NULL: it is none */
    unsigned fits;                   /* of BENCH_FITS_*; of dlock: all */
    int group;                       /* the same for all at one address */
    struct bench_meter *meter;       /* NULL: nothing to read. Those of a group share one */
};

/* What a subject that is no dlock can be asked to do. */
enum {
    BENCH_FITS_ALONE = 1, /* one worker */
    BENCH_FITS_OWN = 2,   /* many, on a name each */
    BENCH_FITS_ONE = 4,   /* many, on one name, in any processes */
    BENCH_FITS_CREW = 8,  /* threads of one process, on one name */
    BENCH_FITS_OPEN = 16,
    BENCH_FITS_ALL = 0xff
};

struct bench_workload {
    const char *name;
    struct bench_load load;
    unsigned kinds; /* of dlock's stores it is for, 1 << enum bench_kind; 0: all */
    int once;       /* in the first round only */
    int rivals;     /* they, too */
    int variants;   /* all that are given of a store at one address; else the first of them */
};

enum bench_metric {
    BENCH_RATE, /* pairs a second */
    BENCH_SHARE,
    BENCH_JAIN,
    BENCH_P50_US,
    BENCH_P90_US,
    BENCH_P99_US,
    BENCH_P999_US,
    BENCH_WORST_MS,
    BENCH_COMMANDS,    /* an operation; in scripts, too */
    BENCH_SCRIPTS,     /* calls of scripts an operation */
    BENCH_SCRIPT_US,   /* how long the server is in them, an operation */
    BENCH_UNREFRESHED, /* the same, less one for each process and second */
    BENCH_SERVER_US,   /* of processor time, an operation */
    BENCH_OWN_US,      /* the same, of the clients */
    BENCH_CORE,        /* of one core, the share that the clients keep busy */
    BENCH_ALLOCATIONS,
    BENCH_SOCKETS,   /* of the process that has most */
    BENCH_MEMORY_MB, /* the same */
    BENCH_LEASE_BYTES,
    BENCH_LOST,
    BENCH_METRICS
};

extern const char *const bench_metric_names[BENCH_METRICS];

struct bench_figures {
    int rounds;                                     /* 0: was left out, or failed */
    double values[BENCH_METRICS][BENCH_ROUNDS_MAX]; /* negative: not known */
    struct bench_histogram times;                   /* of all rounds */
    char why[BENCH_WHY_SIZE];                       /* it failed; "": it did not */
    int absent;                                     /* ... because it is not installed */
};

struct bench_case {
    const struct bench_subject *subject;
    const struct bench_workload *workload;
    struct bench_figures figures;
};

struct bench_plan {
    const struct bench_subject *subjects;
    const struct bench_workload *workloads;
    int subject_count, workload_count;
    struct bench_case *cases; /* in the order of workloads, then subjects */
    int case_count;
};

struct bench_options {
    int rounds;
    int64_t duration_ns; /* of one run */
    const char *only;    /* NULL, or a part of "WORKLOAD: SUBJECT" of the cases to be run */
    int busy;            /* processes that keep processors busy meanwhile */
    const char *rivals;  /* the directory of their programs */
    double load_average; /* of the machine before it began, for the reports */
    /* NULL, or called before each run: so many of all are done, so much time is left. */
    void (*progress)(const struct bench_case *which, int done, int all, int64_t left_ns);
};

/* Pairs subjects with the workloads that they fit; fini frees the cases. -1: no memory. */
int bench_plan_init(struct bench_plan *plan, const char *only);
void bench_plan_fini(struct bench_plan *plan);

/* A case that fails is not tried again. How many failed, those that are absent left out. */
int bench_plan_run(struct bench_plan *plan, const struct bench_options *options);

/* NULL: there is none, or it gave no figures, or failed in a later round. */
const struct bench_figures *bench_plan_find(const struct bench_plan *plan, const char *subject,
                                            const char *workload);

/* What the same store's limit gave under the same workload; NULL: nothing. */
const struct bench_case *bench_plan_limit_of(const struct bench_plan *plan,
                                             const struct bench_case *which);

/* 0: some rounds gave no figure of it. */
int bench_figures_spread(const struct bench_figures *figures, enum bench_metric metric,
                         struct bench_spread *spread);

/* Of over of the same rounds. */
int bench_figures_ratio(const struct bench_figures *figures, const struct bench_figures *over,
                        enum bench_metric metric, struct bench_spread *spread);

#endif
