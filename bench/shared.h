/* SPDX-License-Identifier: MIT */
/*
 * shared.h - the memory that the processes of a run share, and the gates at which they wait.
 *
 * A run has four phases: the workers get ready; the start gate opens and the clock starts; the
 * workers finish and keep their locks while they are measured; the end gate opens and they end.
 */
#ifndef BENCH_SHARED_H
#define BENCH_SHARED_H

#include "workers.h"

#include <stdatomic.h>
#include <stdbool.h>

struct bench_worker_slot {
    uint64_t pairs;
    struct bench_histogram times;
};

/* Opens once. It is a futex, so that many workers wait without a timer for each. */
struct bench_gate {
    _Atomic int open;
};

struct bench_shared {
    _Atomic int ready, finished, failed, done;
    struct bench_gate start_gate, end_gate;
    _Atomic int64_t start_ns; /* set before the start gate opens */
    int64_t duration_ns;
    _Atomic int64_t ended_ns; /* when the last worker finished */
    _Atomic int64_t allocations, lease_bytes, lost;
    _Atomic int last; /* index of the last holder, for BENCH_HANDOFF */
    _Atomic int64_t released_ns;
    char why[BENCH_WHY_SIZE]; /* of the first worker that failed */
    struct bench_worker_slot slots[BENCH_WORKERS_MAX];
};

#define BENCH_NOBODY (-1)

struct bench_worker {
    const struct bench_work *work;
    const struct bench_load *load;
    struct bench_shared *shared;
    struct bench_config config;
    void *process, *self;
    int index;
    char why[BENCH_WHY_SIZE];
};

void bench_gate_open(struct bench_gate *gate);
/* Returns when the gate is open or a worker has failed. */
void bench_gate_wait(struct bench_gate *gate, const struct bench_shared *shared);

/* The first worker that fails sets shared->why. */
void bench_worker_give_up(struct bench_worker *worker);

/* The end of the measured time. */
int64_t bench_worker_deadline_ns(const struct bench_shared *shared);

/* Non-zero: no worker failed, and the time is not over or no pair was done in it. */
int bench_worker_goes_on(const struct bench_worker *worker);

/* One pair that took so long; forget: all that were counted so far. */
void bench_worker_count(struct bench_worker *worker, int64_t ns);
void bench_worker_forget(struct bench_worker *worker);

/* ready: reports `workers` more workers as ready, and waits until the clock starts. finished:
 * reports them as finished, and waits until all workers may end. */
void bench_worker_ready(struct bench_shared *shared, int workers);
void bench_worker_finished(struct bench_shared *shared, int workers);

/* The whole life of a worker. */
void bench_worker_run(struct bench_worker *worker);

/* The same of `count` workers that one thread serves by the functions start and next. */
void bench_worker_run_all(struct bench_worker *workers, int count);

/* The same of BENCH_OPENING, BENCH_RUNNING and the worker of BENCH_KILLED that starts holders: each
 * pair has a process of its own. false: the worker is another one. */
bool bench_worker_run_processes(struct bench_worker *worker);

/* The same of the worker that waits for those holders to die. */
void bench_worker_run_after_death(struct bench_worker *worker);

/* The same of BENCH_CLOSING, in a process that has no store open. */
void bench_worker_run_closing(struct bench_worker *worker);

/* The number of workers that get ready, and that finish. */
int bench_load_ready(const struct bench_load *load);
int bench_load_finished(const struct bench_load *load);

#endif
