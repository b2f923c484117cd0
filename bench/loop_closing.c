/* SPDX-License-Identifier: MIT */
#include "relay.h"
#include "shared.h"
#include "stopwatch.h"

#include <stdio.h>
#include <stdlib.h>

/* The locks of a client that is closed, each of a name that was not used before: a store that fell
 * silent keeps the old ones. */
struct closing {
    struct bench_worker *worker;
    void **locks;
    int names; /* used so far */
    struct bench_relay relay;
};

static int failed(const struct closing *closing)
{
    bench_worker_give_up(closing->worker);
    return -1;
}

static int locks_take(struct closing *closing, int *taken)
{
    struct bench_worker *worker = closing->worker;

    while (*taken < worker->load->leases) {
        void *lock =
            worker->work->begin(worker->process, &worker->config, closing->names++, worker->why);

        if (lock == NULL)
            return failed(closing);
        closing->locks[(*taken)++] = lock;
        if (worker->work->lock(lock, worker->why) != 0)
            return failed(closing);
    }
    return 0;
}

/* Opens, takes the locks, closes and counts the time of the close. */
static int open_and_close(struct closing *closing)
{
    struct bench_worker *worker = closing->worker;
    int64_t before_ns;
    int taken = 0, rc;

    worker->process = worker->work->open(&worker->config, worker->why);
    if (worker->process == NULL)
        return failed(closing);
    rc = locks_take(closing, &taken);
    if (worker->load->silent)
        bench_relay_silence(&closing->relay);
    before_ns = bench_now_ns();
    worker->work->close(worker->process);
    if (rc == 0)
        bench_worker_count(worker, bench_now_ns() - before_ns);
    for (int i = 0; i < taken; i++)
        worker->work->end(closing->locks[i]);
    return rc;
}

/* The same, by way of a relay that falls silent before the close. */
static int once(struct closing *closing)
{
    struct bench_worker *worker = closing->worker;
    const char *uri = worker->config.uri;
    int rc;

    if (!worker->load->silent)
        return open_and_close(closing);
    if (bench_relay_start(&closing->relay, uri, worker->why) != 0)
        return failed(closing);
    worker->config.uri = closing->relay.uri;
    rc = open_and_close(closing);
    worker->config.uri = uri;
    bench_relay_stop(&closing->relay);
    return rc;
}

void bench_worker_run_closing(struct bench_worker *worker)
{
    struct closing closing = {.worker = worker};

    closing.locks = calloc((size_t)worker->load->leases + 1, sizeof *closing.locks);
    if (closing.locks == NULL) {
        (void)snprintf(worker->why, sizeof worker->why, "no memory");
        bench_worker_give_up(worker);
        return;
    }
    bench_worker_ready(worker->shared, 1);
    while (bench_worker_goes_on(worker) && once(&closing) == 0)
        continue;
    if (!atomic_load(&worker->shared->failed))
        bench_worker_finished(worker->shared, 1);
    free(closing.locks);
}
