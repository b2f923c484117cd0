/* SPDX-License-Identifier: MIT */
/*
 * crew.h - processes and threads that lock and unlock in a loop, for a while, all at once.
 *
 * The processes are forked, so the caller has no thread and no open store. Each worker is ready
 * before the clock starts, and keeps what it has until everything was read that is measured from
 * outside.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "gauge.h"
#include "histogram.h"
#include "meter.h"
#include "work.h"

#define BENCH_WORKERS_MAX 128

enum bench_loop {
    BENCH_PAIRS,   /* each as fast as it may; a time is that of lock and unlock, without held_ns */
    BENCH_HANDOFF, /* two workers in turn; a time is from the unlock of one to the lock of the
                    * other, which waits asleep; held_ns has to be long enough for that */
    BENCH_WAITING, /* the first holds for the whole time, the others wait */
    BENCH_LEASES,  /* takes many, a name each, and keeps them; a time is that of a lock */
    BENCH_OPENING  /* a new process each time: open, lock, unlock, close */
};

struct bench_load {
    int processes, threads; /* threads in each */
    int one_name;           /* as in struct bench_place */
    enum bench_loop loop;
    int64_t held_ns, pause_ns;
    int readers;         /* of 100 locks, how many are shared */
    int leases;          /* of the whole crew, for BENCH_LEASES */
    int64_t duration_ns; /* 0: as long as the other loads */
};

struct bench_result {
    double operations; /* pairs; waiters or leases times seconds, for the loops that keep still */
    double seconds;
    double rate;  /* of all workers, a second; negative: of no use */
    double share; /* pairs of the worker with the fewest over those of the one with the most */
    double jain;  /* Jain's index of the same: 1 when all have as many, 1/n when one has all */
    double allocations; /* a pair, in the first process, while its first worker worked; negative:
                         * not known */
    double lease_bytes; /* of memory, for each lease held; negative: not known */
    double lost;        /* leases; negative: not known */
    struct bench_gauge own;       /* of all processes */
    struct bench_tally tally;     /* of the store */
    struct bench_histogram times; /* nanoseconds */
    char why[BENCH_WHY_SIZE];     /* what failed; "": nothing */
};

/* Runs it for duration_ns, unless the load has a duration of its own. meter: of the store, or NULL.
 * 0, or -1 and result->why. */
int bench_crew_run(const struct bench_work *work, const struct bench_place *place,
                   const struct bench_load *load, int64_t duration_ns, struct bench_meter *meter,
                   struct bench_result *result);

/* Processes that keep a processor busy each, until they are stopped. */
struct bench_busy {
    int count;
    int pids[BENCH_WORKERS_MAX];
};

/* -1: not all could be started; stop it all the same. */
int bench_busy_start(struct bench_busy *busy, int count);
void bench_busy_stop(struct bench_busy *busy);

#endif
