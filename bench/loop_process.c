/* SPDX-License-Identifier: MIT */
#include "shared.h"
#include "stopwatch.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_and_close(struct bench_worker *worker)
{
    const struct bench_work *work = worker->work;
    int rc = -1;

    worker->process = work->open(&worker->config, worker->why);
    if (worker->process == NULL)
        return -1;
    worker->self = work->begin(worker->process, &worker->config, worker->index, worker->why);
    if (worker->self != NULL) {
        rc = work->lock(worker->self, worker->why);
        if (rc == 0)
            rc = work->unlock(worker->self, worker->why);
        work->end(worker->self);
    }
    work->close(worker->process);
    return rc;
}

/* Runs one pair in a process that has loaded nothing yet. */
static int once_in_a_child(struct bench_worker *worker)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        int64_t before_ns = bench_now_ns();

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (open_and_close(worker) != 0)
            bench_worker_give_up(worker);
        else
            bench_worker_count(worker, bench_now_ns() - before_ns);
        _exit(0);
    }
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
        return 0;
    (void)snprintf(worker->why, sizeof worker->why, "a process died");
    bench_worker_give_up(worker);
    return -1;
}

void bench_worker_open_and_close(struct bench_worker *worker)
{
    if (once_in_a_child(worker) != 0)
        return;
    bench_worker_forget(worker);
    bench_worker_ready(worker->shared, 1);
    while (bench_worker_goes_on(worker))
        if (once_in_a_child(worker) != 0)
            return;
    bench_worker_finished(worker->shared, 1);
}
