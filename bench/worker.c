/* SPDX-License-Identifier: MIT */
#include "shared.h"
#include "stopwatch.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GATE_NS (100 * BENCH_NS_PER_MS)

void bench_gate_open(struct bench_gate *gate)
{
    atomic_store(&gate->open, 1);
    (void)syscall(SYS_futex, &gate->open, FUTEX_WAKE, BENCH_WORKERS_MAX, NULL, NULL, 0);
}

void bench_gate_wait(struct bench_gate *gate, const struct bench_shared *shared)
{
    struct timespec wait = {.tv_nsec = GATE_NS};

    while (!atomic_load(&gate->open) && !atomic_load(&shared->failed))
        (void)syscall(SYS_futex, &gate->open, FUTEX_WAIT, 0, &wait, NULL, 0);
}

void bench_worker_give_up(struct bench_worker *worker)
{
    if (atomic_exchange(&worker->shared->failed, 1) == 0)
        memcpy(worker->shared->why, worker->why, sizeof worker->shared->why);
}

int64_t bench_worker_deadline_ns(const struct bench_shared *shared)
{
    return atomic_load(&shared->start_ns) + shared->duration_ns;
}

int bench_worker_goes_on(const struct bench_worker *worker)
{
    const struct bench_shared *shared = worker->shared;

    return !atomic_load(&shared->failed) &&
           (bench_now_ns() < bench_worker_deadline_ns(shared) || !atomic_load(&shared->done));
}

void bench_worker_count(struct bench_worker *worker, int64_t ns)
{
    struct bench_worker_slot *slot = &worker->shared->slots[worker->index];

    slot->pairs += worker->work->weight > 1 ? (uint64_t)worker->work->weight : 1;
    bench_histogram_add(&slot->times, (uint64_t)ns);
    if (!atomic_load(&worker->shared->done))
        atomic_store(&worker->shared->done, 1);
}

void bench_worker_forget(struct bench_worker *worker)
{
    memset(&worker->shared->slots[worker->index], 0, sizeof worker->shared->slots[0]);
    atomic_store(&worker->shared->done, 0);
}

void bench_worker_ready(struct bench_shared *shared, int workers)
{
    (void)atomic_fetch_add(&shared->ready, workers);
    bench_gate_wait(&shared->start_gate, shared);
    bench_sleep_ns(atomic_load(&shared->start_ns) - bench_now_ns());
}

void bench_worker_finished(struct bench_shared *shared, int workers)
{
    int64_t ended_ns = bench_now_ns(), last_ns = atomic_load(&shared->ended_ns);

    while (ended_ns > last_ns &&
           !atomic_compare_exchange_weak(&shared->ended_ns, &last_ns, ended_ns))
        continue;
    (void)atomic_fetch_add(&shared->finished, workers);
    bench_gate_wait(&shared->end_gate, shared);
}

int bench_load_ready(const struct bench_load *load)
{
    return load->processes * load->threads;
}

int bench_load_finished(const struct bench_load *load)
{
    return load->loop == BENCH_WAITING ? 1 : load->processes * load->threads;
}
