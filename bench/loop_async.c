/* SPDX-License-Identifier: MIT */
#include "allocations.h"
#include "shared.h"
#include "stopwatch.h"

#include <stdbool.h>
#include <stddef.h>

/* The pair of a worker that is under way. */
struct pair {
    int64_t asked_ns;
    bool unlocks;
};

static bool begin(struct bench_worker *worker, struct pair *pair)
{
    int rc;

    if (!pair->unlocks)
        pair->asked_ns = bench_now_ns();
    rc = worker->work->start(worker->self, pair->unlocks, worker->why);
    if (rc != 0)
        bench_worker_give_up(worker);
    return rc == 0;
}

/* Each worker locks and unlocks until the time is over; at least once, and only once if `once`. */
static bool turn(struct bench_worker *workers, int count, bool once)
{
    struct pair pairs[BENCH_WORKERS_MAX] = {0};
    int left = count;

    for (int i = 0; i < count; i++)
        if (!begin(&workers[i], &pairs[i]))
            return false;
    while (left > 0) {
        int index = workers->work->next(workers->process, workers->why) - workers->index;
        struct pair *pair;

        if (index < 0 || index >= count) {
            bench_worker_give_up(workers);
            return false;
        }
        pair = &pairs[index];
        pair->unlocks = !pair->unlocks;
        if (!pair->unlocks) {
            bench_worker_count(&workers[index], bench_now_ns() - pair->asked_ns);
            if (once || !bench_worker_goes_on(&workers[index])) {
                left--;
                continue;
            }
        }
        if (!begin(&workers[index], pair))
            return false;
    }
    return true;
}

static void run(struct bench_worker *workers, int count)
{
    struct bench_shared *shared = workers->shared;
    int64_t before;

    if (!turn(workers, count, true))
        return;
    for (int i = 0; i < count; i++)
        bench_worker_forget(&workers[i]);
    bench_worker_ready(shared, count);
    before = bench_allocations();
    if (!turn(workers, count, false))
        return;
    if (workers->index == 0 && before >= 0)
        atomic_store(&shared->allocations, bench_allocations() - before);
    bench_worker_finished(shared, count);
}

void bench_worker_run_all(struct bench_worker *workers, int count)
{
    int begun = 0;

    for (; begun < count; begun++) {
        struct bench_worker *worker = &workers[begun];

        worker->self =
            worker->work->begin(worker->process, &worker->config, worker->index, worker->why);
        if (worker->self == NULL) {
            bench_worker_give_up(worker);
            break;
        }
    }
    if (begun == count)
        run(workers, count);
    while (begun-- > 0)
        workers->work->end(workers[begun].self);
}
