/* SPDX-License-Identifier: MIT */
/*
 * plan.h - runs cases in alternated rounds, and keeps their figures.
 *
 * A case is a subject (a store, a limit or a rival) under a workload. The subjects of a workload
 * run one after the other, and each round begins with another subject, so that all of them met the
 * same machine.
 */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include "address.h"
#include "spread.h"
#include "workers.h"

#define BENCH_ROUNDS_MAX 25
#define BENCH_LABEL_SIZE 80

enum bench_role { BENCH_DLOCK, BENCH_LIMIT, BENCH_RIVAL };

struct bench_rival; /* rival.h */

struct bench_subject {
    char label[BENCH_LABEL_SIZE];
    char uri[600]; /* as in struct bench_config */
    enum bench_role role;
    enum bench_kind kind;
    const struct bench_work *work;   /* NULL: a rival */
    const struct bench_rival *rival; /* NULL: not a rival */
    unsigned fits;                   /* bits of BENCH_FITS_*; for dlock: all */
    int group;                       /* the same for all subjects at one address */
    struct bench_meter *meter;       /* NULL: none. The subjects of a group share one */
};

/* The workloads that fit a subject that is not dlock. */
enum {
    BENCH_FITS_ALONE = 1,   /* one worker */
    BENCH_FITS_OWN = 2,     /* many workers, on a name each */
    BENCH_FITS_ONE = 4,     /* many workers, on one name, in any processes */
    BENCH_FITS_THREADS = 8, /* threads of one process, on one name */
    BENCH_FITS_OPEN = 16,
    BENCH_FITS_RUN = 32, /* a program each time */
    BENCH_FITS_ALL = 0xff
};

struct bench_workload {
    const char *name;
    struct bench_load load;
    unsigned kinds; /* the dlock stores that it is for, 1 << enum bench_kind; 0: all */
    int once;       /* in the first round only */
    int rivals;     /* non-zero: for rivals, too */
    int async;      /* non-zero: for stores by dlock_op_start, too */
    int variants;   /* non-zero: all subjects of a store at one address; else the first one */
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
    BENCH_COMMANDS,    /* commands an operation, also in scripts */
    BENCH_SCRIPTS,     /* calls of scripts an operation */
    BENCH_SCRIPT_US,   /* time of the server in scripts, an operation */
    BENCH_UNREFRESHED, /* the same, less one for each process and second */
    BENCH_SERVER_US,   /* of processor time, an operation */
    BENCH_OWN_US,      /* the same, of the clients */
    BENCH_CORE,        /* the share of one core that the clients keep busy */
    BENCH_ALLOCATIONS,
    BENCH_SOCKETS,   /* of the process with the most */
    BENCH_MEMORY_MB, /* the same */
    BENCH_LEASE_BYTES,
    BENCH_LOST,
    BENCH_METRICS
};

extern const char *const bench_metric_names[BENCH_METRICS];

struct bench_figures {
    int rounds;                                     /* 0: left out, or failed */
    double values[BENCH_METRICS][BENCH_ROUNDS_MAX]; /* negative: not known */
    struct bench_histogram times;                   /* of all rounds */
    char why[BENCH_WHY_SIZE];                       /* the failure; "": none */
    int absent;                                     /* the failure: it is not installed */
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
    int busy;            /* the number of processes of bench_busy beside the cases */
    const char *rivals;  /* the directory of their programs */
    double load_average; /* of the machine before it began, for the reports */
    /* NULL, or called before each run: the runs done, of all, and the time left. */
    void (*progress)(const struct bench_case *which, int done, int all, int64_t left_ns);
};

/* Pairs subjects with the workloads that they fit; fini frees the cases. -1: no memory. */
int bench_plan_init(struct bench_plan *plan, const char *only);
void bench_plan_fini(struct bench_plan *plan);

/* A case that fails is not run again. Returns the number of failed cases, without absent ones. */
int bench_plan_run(struct bench_plan *plan, const struct bench_options *options);

/* NULL: there is no such case, or it gave no figures, or failed in a later round. */
const struct bench_figures *bench_plan_find(const struct bench_plan *plan, const char *subject,
                                            const char *workload);

/* The figures of the same store's limit under the same workload; NULL: none. */
const struct bench_case *bench_plan_limit_of(const struct bench_plan *plan,
                                             const struct bench_case *which);

/* 0: a round gave no figure. */
int bench_figures_spread(const struct bench_figures *figures, enum bench_metric metric,
                         struct bench_spread *spread);

/* The ratio of two figures of the same rounds. */
int bench_figures_ratio(const struct bench_figures *figures, const struct bench_figures *over,
                        enum bench_metric metric, struct bench_spread *spread);

#endif
