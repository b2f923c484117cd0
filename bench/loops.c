/* SPDX-License-Identifier: MIT */
#include "allocations.h"
#include "gauge.h"
#include "shared.h"
#include "stopwatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GLANCE_NS     (50 * BENCH_NS_PER_US)
#define END_NS        (5 * BENCH_NS_PER_S)
#define WARM_HANDOFFS 8

static int taken(struct bench_worker *worker, int (*lock)(void *, char *))
{
    int rc = lock(worker->self, worker->why);

    if (rc != 0)
        bench_worker_give_up(worker);
    return rc;
}

static int take(struct bench_worker *worker)
{
    return taken(worker, worker->work->lock);
}

static int give(struct bench_worker *worker)
{
    return taken(worker, worker->work->unlock);
}

/* The choice of shared locks is the same in each run. */
static int reads(const struct bench_worker *worker, uint32_t *chance)
{
    *chance = *chance * 1664525u + 1013904223u;
    return (int)((*chance >> 16) % 100) < worker->load->readers;
}

static void loop_pairs(struct bench_worker *worker)
{
    uint32_t chance = (uint32_t)worker->index;

    while (bench_worker_goes_on(worker)) {
        int64_t asked_ns = bench_now_ns(), held_ns = 0, before_ns = 0;

        if (taken(worker, reads(worker, &chance) ? worker->work->rdlock : worker->work->lock) != 0)
            return;
        if (worker->load->held_ns != 0) {
            before_ns = bench_now_ns();
            bench_sleep_exactly_ns(worker->load->held_ns);
            held_ns = bench_now_ns() - before_ns;
        }
        if (give(worker) != 0)
            return;
        bench_worker_count(worker, bench_now_ns() - asked_ns - held_ns);
        bench_sleep_exactly_ns(worker->load->pause_ns);
    }
}

static int pass_on(struct bench_worker *worker)
{
    struct bench_shared *shared = worker->shared;
    int64_t now_ns = 0;

    if (take(worker) != 0)
        return -1;
    now_ns = bench_now_ns();
    if (atomic_load(&shared->last) != BENCH_NOBODY && atomic_load(&shared->last) != worker->index)
        bench_worker_count(worker, now_ns - atomic_load(&shared->released_ns));
    atomic_store(&shared->last, worker->index);
    bench_sleep_exactly_ns(worker->load->held_ns);
    atomic_store(&shared->released_ns, bench_now_ns());
    return give(worker);
}

static void loop_handoff(struct bench_worker *worker)
{
    while (bench_worker_goes_on(worker)) {
        if (pass_on(worker) != 0)
            return;
        while (bench_worker_goes_on(worker) && atomic_load(&worker->shared->last) == worker->index)
            bench_sleep_ns(GLANCE_NS);
    }
}

/* The first hand-offs connect what waits, and prepare statements. A worker that is ready has its
 * share. */
static int warm_up(struct bench_worker *worker)
{
    const struct bench_shared *shared = worker->shared;

    for (int i = 0; i < WARM_HANDOFFS; i++) {
        if (pass_on(worker) != 0)
            return -1;
        while (atomic_load(&shared->last) == worker->index && atomic_load(&shared->ready) == 0 &&
               !atomic_load(&shared->failed))
            bench_sleep_ns(GLANCE_NS);
    }
    bench_worker_forget(worker);
    return 0;
}

static void loop(struct bench_worker *worker)
{
    int64_t before = bench_allocations();

    if (worker->load->loop == BENCH_HANDOFF)
        loop_handoff(worker);
    else
        loop_pairs(worker);
    if (worker->index == 0 && before >= 0)
        atomic_store(&worker->shared->allocations, bench_allocations() - before);
}

static void run_pairs(struct bench_worker *worker)
{
    if (take(worker) != 0 || give(worker) != 0)
        return;
    if (worker->load->loop == BENCH_HANDOFF && warm_up(worker) != 0)
        return;
    bench_worker_ready(worker->shared, 1);
    loop(worker);
    bench_worker_finished(worker->shared, 1);
}

static void run_waiting(struct bench_worker *worker)
{
    struct bench_shared *shared = worker->shared;

    if (worker->index == 0) {
        if (take(worker) != 0)
            return;
        atomic_store(&shared->last, 0);
        bench_worker_ready(shared, 1);
        bench_sleep_ns(bench_worker_deadline_ns(shared) - bench_now_ns());
        bench_worker_finished(shared, 1);
    } else {
        while (atomic_load(&shared->last) == BENCH_NOBODY && !atomic_load(&shared->failed))
            bench_sleep_ns(GLANCE_NS);
        (void)atomic_fetch_add(&shared->ready, 1);
        if (take(worker) != 0)
            return;
    }
    (void)give(worker);
}

static int leases_take(struct bench_worker *worker, void **leases, int wanted)
{
    int first = worker->index * wanted, got = 0;

    for (; got < wanted; got++) {
        int64_t before_ns = bench_now_ns();

        leases[got] =
            worker->work->begin(worker->process, &worker->config, first + got, worker->why);
        worker->self = leases[got];
        if (leases[got] == NULL) {
            bench_worker_give_up(worker);
            break;
        }
        if (take(worker) != 0)
            return got + 1;
        bench_worker_count(worker, bench_now_ns() - before_ns);
    }
    worker->self = NULL;
    return got;
}

static int leases_lost(const struct bench_worker *worker, void *const *leases, int count)
{
    int lost = 0;

    for (int i = 0; i < count; i++)
        lost += worker->work->holds != NULL && !worker->work->holds(leases[i]);
    return lost;
}

/* Stops after END_NS: the store ends the other leases. */
static void leases_end(struct bench_worker *worker, void **leases, int count)
{
    int64_t until_ns = bench_now_ns() + END_NS;

    for (int i = 0; i < count; i++) {
        if (bench_now_ns() > until_ns)
            _exit(0);
        (void)worker->work->unlock(leases[i], worker->why);
        worker->work->end(leases[i]);
    }
}

static void run_leases(struct bench_worker *worker)
{
    struct bench_shared *shared = worker->shared;
    int wanted = worker->load->leases / (worker->load->processes * worker->load->threads);
    void **leases = calloc((size_t)wanted + 1, sizeof *leases);
    int64_t resident = bench_gauge_resident();
    int got = 0;

    if (leases == NULL) {
        (void)snprintf(worker->why, sizeof worker->why, "no memory");
        bench_worker_give_up(worker);
        return;
    }
    got = leases_take(worker, leases, wanted);
    if (got == wanted) {
        bench_worker_ready(shared, 1);
        if (worker->index == 0)
            atomic_store(&shared->lease_bytes, bench_gauge_resident() - resident);
        bench_sleep_ns(bench_worker_deadline_ns(shared) - bench_now_ns());
        (void)atomic_fetch_add(&shared->lost, leases_lost(worker, leases, got));
        bench_worker_finished(shared, 1);
    }
    leases_end(worker, leases, got);
    free(leases);
}

void bench_worker_run(struct bench_worker *worker)
{
    if (worker->load->loop == BENCH_LEASES) {
        run_leases(worker);
        return;
    }
    worker->self =
        worker->work->begin(worker->process, &worker->config, worker->index, worker->why);
    if (worker->self == NULL) {
        bench_worker_give_up(worker);
        return;
    }
    if (worker->load->loop == BENCH_WAITING)
        run_waiting(worker);
    else if (worker->load->loop == BENCH_KILLED)
        bench_worker_run_after_death(worker);
    else
        run_pairs(worker);
    worker->work->end(worker->self);
}
