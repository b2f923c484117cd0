/* SPDX-License-Identifier: MIT */
#include "workers.h"

#include "shared.h"
#include "stopwatch.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GLANCE_NS BENCH_NS_PER_MS
#define ALARM_S   300                     /* for a process that hangs */
#define SETTLE_NS (500 * BENCH_NS_PER_MS) /* until the waiting workers sleep */

static void *worker_main(void *arg)
{
    bench_worker_run(arg);
    return NULL;
}

static void threads_run(struct bench_worker *workers, int count)
{
    pthread_t threads[BENCH_WORKERS_MAX];
    int started = 0;

    while (started < count &&
           pthread_create(&threads[started], NULL, worker_main, &workers[started]) == 0)
        started++;
    if (started < count) {
        (void)snprintf(workers[0].why, BENCH_WHY_SIZE, "cannot start %d threads", count);
        bench_worker_give_up(&workers[0]);
    }
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}

/* The work of the number-th process. */
static void process_run(const struct bench_worker *model, int number)
{
    struct bench_worker workers[BENCH_WORKERS_MAX];
    int threads = model->load->threads;

    for (int i = 0; i < threads; i++) {
        workers[i] = *model;
        workers[i].index = number * threads + i;
    }
    if (bench_worker_run_processes(&workers[0]))
        return;
    if (model->load->loop == BENCH_CLOSING) {
        bench_worker_run_closing(&workers[0]);
        return;
    }
    workers[0].process = model->work->open(&model->config, workers[0].why);
    if (workers[0].process == NULL) {
        bench_worker_give_up(&workers[0]);
        return;
    }
    for (int i = 1; i < threads; i++)
        workers[i].process = workers[0].process;
    if (model->work->start != NULL)
        bench_worker_run_all(workers, threads);
    else
        threads_run(workers, threads);
    model->work->close(workers[0].process);
}

static pid_t child_start(void)
{
    pid_t pid = -1;

    (void)fflush(NULL);
    pid = fork();
    if (pid == 0)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static int processes_start(const struct bench_worker *model, pid_t *pids)
{
    for (int i = 0; i < model->load->processes; i++) {
        pids[i] = child_start();
        if (pids[i] == 0) {
            (void)alarm(ALARM_S);
            process_run(model, i);
            _exit(0);
        }
        if (pids[i] < 0)
            return i;
    }
    return model->load->processes;
}

/* Waits until `counted` is `wanted`. A process that died cannot count, so the others are told to
 * stop. */
static void shared_wait(struct bench_shared *shared, const _Atomic int *counted, int wanted)
{
    siginfo_t info = {0};

    while (atomic_load(counted) < wanted && !atomic_load(&shared->failed)) {
        bench_sleep_ns(GLANCE_NS);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
            info.si_code != CLD_EXITED)
            atomic_store(&shared->failed, 1);
    }
}

static void processes_wait(struct bench_shared *shared, const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++) {
        int status = 0;

        (void)waitpid(pids[i], &status, 0);
        if (status != 0 && atomic_exchange(&shared->failed, 1) == 0)
            (void)snprintf(shared->why, sizeof shared->why, "a process ended with status %d",
                           status);
    }
}

/* Reads the figures from outside, before and after the measured time. */
static void measure(struct bench_shared *shared, const struct bench_load *load, const pid_t *pids,
                    struct bench_meter *meter, struct bench_result *result)
{
    const pid_t self = getpid();
    struct bench_gauge before, inherited;
    struct bench_tally tally_before, tally_after;

    shared_wait(shared, &shared->ready, bench_load_ready(load));
    if (load->loop == BENCH_WAITING)
        bench_sleep_ns(SETTLE_NS);
    bench_meter_read(meter, &tally_before);
    bench_gauge_read(pids, load->processes, &before);
    atomic_store(&shared->start_ns, bench_now_ns() + BENCH_NS_PER_MS);
    bench_gate_open(&shared->start_gate);
    if (!atomic_load(&shared->failed))
        bench_sleep_ns(shared->start_ns + shared->duration_ns - bench_now_ns());
    shared_wait(shared, &shared->finished, bench_load_finished(load));
    bench_gauge_read(pids, load->processes, &result->own);
    bench_meter_read(meter, &tally_after);
    bench_gauge_read(&self, 1, &inherited);
    result->own.cpu_ns -= before.cpu_ns;
    result->own.sockets -= inherited.sockets;
    result->tally = bench_tally_between(&tally_before, &tally_after);
    bench_gate_open(&shared->end_gate);
}

static void shares_fill(struct bench_result *result, const struct bench_shared *shared, int workers)
{
    uint64_t least = UINT64_MAX, most = 0;
    double sum = 0, squares = 0;

    for (int i = 0; i < workers; i++) {
        uint64_t pairs = shared->slots[i].pairs;

        least = pairs < least ? pairs : least;
        most = pairs > most ? pairs : most;
        sum += (double)pairs;
        squares += (double)pairs * (double)pairs;
    }
    result->share = most == 0 ? -1 : (double)least / (double)most;
    result->jain = most == 0 ? -1 : sum * sum / ((double)workers * squares);
}

static double or_unknown(int64_t value, double over)
{
    return value < 0 || over <= 0 ? -1 : (double)value / over;
}

static void result_fill(struct bench_result *result, const struct bench_shared *shared,
                        const struct bench_load *load)
{
    int workers = load->processes * load->threads;
    uint64_t all = 0, first = 0;

    memset(&result->times, 0, sizeof result->times);
    for (int i = 0; i < workers; i++) {
        all += shared->slots[i].pairs;
        first += i < load->threads ? shared->slots[i].pairs : 0;
        bench_histogram_merge(&result->times, &shared->slots[i].times);
    }
    shares_fill(result, shared, workers);
    result->seconds = (double)(shared->ended_ns - shared->start_ns) / (double)BENCH_NS_PER_S;
    result->operations = (double)all;
    result->rate = (double)all / result->seconds;
    result->allocations = or_unknown(shared->allocations, (double)first);
    result->lease_bytes = result->lost = -1;
    if (load->loop == BENCH_WAITING || load->loop == BENCH_LEASES) {
        double still = load->loop == BENCH_WAITING ? workers - 1 : (double)all;

        result->operations = still * result->seconds;
        result->rate = result->share = result->jain = -1;
    }
    if (load->loop == BENCH_OPENING || load->loop == BENCH_RUNNING ||
        load->loop == BENCH_KILLED) /* its processes are gone */
        result->own = (struct bench_gauge){-1, -1, -1};
    if (load->loop == BENCH_KILLED)
        result->rate = result->share = result->jain = -1;
    if (load->loop == BENCH_LEASES) {
        result->lease_bytes = or_unknown(shared->lease_bytes, (double)first);
        result->lost = (double)shared->lost;
    }
}

static int workers_run(const struct bench_worker *model, struct bench_meter *meter,
                       struct bench_result *result)
{
    struct bench_shared *shared = model->shared;
    pid_t pids[BENCH_WORKERS_MAX];
    int started = processes_start(model, pids);

    if (started < model->load->processes && atomic_exchange(&shared->failed, 1) == 0)
        (void)snprintf(shared->why, sizeof shared->why, "cannot start %d processes",
                       model->load->processes);
    measure(shared, model->load, pids, meter, result);
    processes_wait(shared, pids, started);
    (void)snprintf(result->why, sizeof result->why, "%s",
                   shared->failed && shared->why[0] == '\0' ? "a process died" : shared->why);
    result_fill(result, shared, model->load);
    return shared->failed ? -1 : 0;
}

int bench_workers_run(const struct bench_work *work, const struct bench_config *config,
                      const struct bench_load *load, int64_t duration_ns, struct bench_meter *meter,
                      struct bench_result *result)
{
    struct bench_worker model = {.work = work, .load = load, .config = *config};
    struct bench_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rc = -1;

    if (shared == MAP_FAILED) {
        (void)snprintf(result->why, sizeof result->why, "no memory");
        return -1;
    }
    shared->duration_ns = load->duration_ns != 0 ? load->duration_ns : duration_ns;
    shared->last = BENCH_NOBODY;
    shared->allocations = shared->lease_bytes = -1;
    model.shared = shared;
    if (work->prepare == NULL || work->prepare(config, result->why) == 0)
        rc = workers_run(&model, meter, result);
    (void)munmap(shared, sizeof *shared);
    return rc;
}

int bench_busy_start(struct bench_busy *busy, int count)
{
    busy->count = 0;
    while (busy->count < count) {
        pid_t pid = child_start();

        if (pid < 0)
            return -1;
        if (pid == 0)
            for (;;)
                continue;
        busy->pids[busy->count++] = pid;
    }
    return 0;
}

void bench_busy_stop(struct bench_busy *busy)
{
    for (int i = 0; i < busy->count; i++) {
        (void)kill(busy->pids[i], SIGKILL);
        (void)waitpid(busy->pids[i], NULL, 0);
    }
    busy->count = 0;
}
