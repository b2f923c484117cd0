/* SPDX-License-Identifier: MIT */
#include "shared.h"
#include "stopwatch.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GLANCE_NS (50 * BENCH_NS_PER_US)

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

/* Runs a program, as a shell does. */
static int once_as_a_program(struct bench_worker *worker)
{
    struct bench_command command;
    int64_t before_ns = bench_now_ns();
    int status = -1;
    pid_t pid = -1;

    worker->work->command(&worker->config, &command);
    if (posix_spawn(&pid, command.words[0], NULL, NULL, (char *const *)(uintptr_t)command.words,
                    environ) == 0 &&
        waitpid(pid, &status, 0) == pid && status == 0) {
        bench_worker_count(worker, bench_now_ns() - before_ns);
        return 0;
    }
    (void)snprintf(worker->why, sizeof worker->why, "%.200s failed", command.words[0]);
    bench_worker_give_up(worker);
    return -1;
}

static void again_and_again(struct bench_worker *worker, int (*once)(struct bench_worker *))
{
    if (once(worker) != 0)
        return;
    bench_worker_forget(worker);
    bench_worker_ready(worker->shared, 1);
    while (bench_worker_goes_on(worker))
        if (once(worker) != 0)
            return;
    bench_worker_finished(worker->shared, 1);
}

/* Takes the lock and dies with it. */
static void hold_and_die(struct bench_worker *worker)
{
    struct bench_shared *shared = worker->shared;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    worker->process = worker->work->open(&worker->config, worker->why);
    if (worker->process != NULL)
        worker->self = worker->work->begin(worker->process, &worker->config, 0, worker->why);
    if (worker->self == NULL || worker->work->lock(worker->self, worker->why) != 0) {
        bench_worker_give_up(worker);
        _exit(0);
    }
    atomic_store(&shared->last, worker->index);
    bench_sleep_ns(worker->load->held_ns); /* the other one waits by then */
    atomic_store(&shared->released_ns, bench_now_ns());
    (void)kill(getpid(), SIGKILL);
}

/* Starts one holder after the other, each when the one that waits has had the lock. */
static void start_holders(struct bench_worker *worker)
{
    struct bench_shared *shared = worker->shared;

    bench_worker_ready(shared, 1);
    while (bench_worker_goes_on(worker)) {
        pid_t pid = fork();

        if (pid == 0)
            hold_and_die(worker);
        if (pid < 0 || waitpid(pid, NULL, 0) != pid) {
            (void)snprintf(worker->why, sizeof worker->why, "cannot start a holder");
            bench_worker_give_up(worker);
            return;
        }
        while (bench_worker_goes_on(worker) && atomic_load(&shared->last) != BENCH_NOBODY)
            bench_sleep_ns(GLANCE_NS);
    }
    bench_worker_finished(shared, 1);
}

void bench_worker_run_after_death(struct bench_worker *worker)
{
    struct bench_shared *shared = worker->shared;

    bench_worker_ready(shared, 1);
    while (bench_worker_goes_on(worker)) {
        if (atomic_load(&shared->last) == BENCH_NOBODY) {
            bench_sleep_ns(GLANCE_NS);
            continue;
        }
        if (worker->work->lock(worker->self, worker->why) != 0) {
            bench_worker_give_up(worker);
            return;
        }
        bench_worker_count(worker, bench_now_ns() - atomic_load(&shared->released_ns));
        if (worker->work->unlock(worker->self, worker->why) != 0) {
            bench_worker_give_up(worker);
            return;
        }
        atomic_store(&shared->last, BENCH_NOBODY);
    }
    bench_worker_finished(shared, 1);
}

bool bench_worker_run_processes(struct bench_worker *worker)
{
    switch (worker->load->loop) {
    case BENCH_OPENING:
        again_and_again(worker, once_in_a_child);
        return true;
    case BENCH_RUNNING:
        again_and_again(worker, once_as_a_program);
        return true;
    case BENCH_KILLED:
        if (worker->index != 1)
            return false;
        start_holders(worker);
        return true;
    default:
        return false;
    }
}
