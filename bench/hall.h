/* SPDX-License-Identifier: MIT */
/*
 * hall.h - what the processes of a crew share, and how they wait for each other.
 *
 * A run has four phases: workers get ready; the clock starts; workers finish, and stay as they are
 * while the crew is measured; the doors open and they leave.
 */
#ifndef BENCH_HALL_H
#define BENCH_HALL_H

#include "crew.h"

#include <stdatomic.h>

struct bench_seat {
    uint64_t pairs;
    struct bench_histogram times;
};

/* Opens once. A futex, so that many wait without a timer each. */
struct bench_door {
    _Atomic int open;
};

struct bench_hall {
    _Atomic int ready, finished, failed, done;
    struct bench_door start, leave;
    _Atomic int64_t start_ns; /* set before the start opens */
    int64_t duration_ns;
    _Atomic int64_t ended_ns; /* the last worker did */
    _Atomic int64_t allocations, lease_bytes, lost;
    _Atomic int last; /* who held it, for BENCH_HANDOFF */
    _Atomic int64_t released_ns;
    char why[BENCH_WHY_SIZE]; /* of the first that failed */
    struct bench_seat seats[BENCH_WORKERS_MAX];
};

#define BENCH_NOBODY (-1)

struct bench_worker {
    const struct bench_work *work;
    const struct bench_load *load;
    struct bench_hall *hall;
    struct bench_place place;
    void *process, *self;
    int index;
    char why[BENCH_WHY_SIZE];
};

void bench_door_open(struct bench_door *door);
/* Returns when it is open, or somebody in the hall failed. */
void bench_door_wait(struct bench_door *door, const struct bench_hall *hall);

/* The first to fail says why. */
void bench_worker_give_up(struct bench_worker *worker);

/* From joining to leaving. */
void bench_worker_run(struct bench_worker *worker);

/* For BENCH_OPENING, which has no process that stays. */
void bench_worker_open_and_close(struct bench_worker *worker);

/* How many workers there are to be ready, and to finish. */
int bench_load_ready(const struct bench_load *load);
int bench_load_finished(const struct bench_load *load);

#endif
