/* SPDX-License-Identifier: MIT */
/*
 * crew.h - processes and threads that lock and unlock in a loop, for a while, all at once.
 *
 * The processes are forked, so the caller has no thread and no open store. Each worker locks once
 * before the clock starts.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "histogram.h"
#include "work.h"

#define BENCH_WORKERS_MAX 64

enum bench_loop {
    BENCH_PAIRS,  /* each as fast as it may; a time is that of lock and unlock, without held_ns */
    BENCH_HANDOFF /* two workers in turn; a time is from the unlock of one to the lock of the other,
                   * which waits asleep; held_ns has to be long enough for it to be asleep */
};

struct bench_load {
    int processes, threads; /* threads in each */
    int one_name;           /* as in struct bench_place */
    enum bench_loop loop;
    int64_t held_ns, pause_ns;
};

struct bench_result {
    double rate;  /* of all workers, a second */
    double share; /* pairs of the worker with the fewest over those of the one with the most */
    double allocations; /* a pair, in the first process, while its first worker worked; negative:
                         * not known */
    struct bench_histogram times; /* nanoseconds */
    char why[BENCH_WHY_SIZE];     /* what failed; "": nothing */
};

/* 0, or -1 and result->why. */
int bench_crew_run(const struct bench_work *work, const char *uri, const struct bench_load *load,
                   int64_t duration_ns, struct bench_result *result);

/* Processes that keep a processor busy each, until they are stopped. */
struct bench_busy {
    int count;
    int pids[BENCH_WORKERS_MAX];
};

/* -1: not all could be started; stop it all the same. */
int bench_busy_start(struct bench_busy *busy, int count);
void bench_busy_stop(struct bench_busy *busy);

#endif
