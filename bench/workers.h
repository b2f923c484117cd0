/* SPDX-License-Identifier: MIT */
/*
 * workers.h - processes and threads that lock and unlock in a loop, all at the same time.
 *
 * The processes are forked, so the caller has no thread and no open store. Each worker is ready
 * before the clock starts, and keeps its store and its locks until the figures were read that are
 * measured from outside.
 */
#ifndef BENCH_WORKERS_H
#define BENCH_WORKERS_H

#include "gauge.h"
#include "histogram.h"
#include "meter.h"
#include "work.h"

#define BENCH_WORKERS_MAX 128

enum bench_loop {
    BENCH_PAIRS,   /* each as fast as it can; a time is of lock and unlock, without held_ns */
    BENCH_HANDOFF, /* two workers alternate; a time is from the unlock of one to the lock of
                    * the other, which sleeps while it waits; held_ns must be long enough */
    BENCH_WAITING, /* the first worker holds the lock all the time, the others wait */
    BENCH_LEASES,  /* takes many locks, each of a name of its own; a time is of one lock */
    BENCH_OPENING, /* a new process each time: open, lock, unlock, close */
    BENCH_RUNNING, /* a program each time, as from a shell; a time is of its whole process */
    BENCH_KILLED,  /* two processes; one starts holders, which SIGKILL ends; a time is from its end
                    * to the lock of the other one, which waits */
    BENCH_CLOSING  /* takes many locks and closes; a time is of the close */
};

struct bench_load {
    int processes, threads; /* threads in each */
    int one_name;           /* as in struct bench_config */
    enum bench_loop loop;
    int64_t held_ns, pause_ns;
    int readers;         /* the number of shared locks of 100 */
    int leases;          /* of all workers, for BENCH_LEASES and BENCH_CLOSING */
    int silent;          /* non-zero: for BENCH_CLOSING, the store falls silent before the close */
    int64_t duration_ns; /* 0: as long as the other loads */
};

struct bench_result {
    double operations; /* pairs; BENCH_WAITING, BENCH_LEASES: waiters or leases times seconds */
    double seconds;
    double rate;        /* of all workers, a second; negative: no meaning */
    double share;       /* the fewest pairs of a worker over the most pairs of one */
    double jain;        /* Jain's index of the pairs: 1 if all have as many, 1/n if one has all */
    double allocations; /* a pair, in the first process, while its first worker worked; negative:
                         * not known */
    double lease_bytes; /* of memory, for each lease held; negative: not known */
    double lost;        /* leases; negative: not known */
    struct bench_gauge own;       /* of all processes */
    struct bench_tally tally;     /* of the store */
    struct bench_histogram times; /* nanoseconds */
    char why[BENCH_WHY_SIZE];     /* what failed; "": nothing */
};

/* Runs the load for duration_ns, or for its own duration. meter: of the store, or NULL.
 * 0, or -1 and result->why. */
int bench_workers_run(const struct bench_work *work, const struct bench_config *config,
                      const struct bench_load *load, int64_t duration_ns, struct bench_meter *meter,
                      struct bench_result *result);

/* Processes, each of which keeps a processor busy until it is stopped. */
struct bench_busy {
    int count;
    int pids[BENCH_WORKERS_MAX];
};

/* -1: not all could be started; call bench_busy_stop all the same. */
int bench_busy_start(struct bench_busy *busy, int count);
void bench_busy_stop(struct bench_busy *busy);

#endif
