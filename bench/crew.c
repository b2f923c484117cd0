/* SPDX-License-Identifier: MIT */
#include "crew.h"

#include "allocations.h"
#include "stopwatch.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GLANCE_NS (50 * BENCH_NS_PER_US)
#define ALARM_S   300 /* for a process that hangs */
#define NOBODY    (-1)

struct seat {
    uint64_t pairs;
    struct bench_histogram times;
};

/* What the processes share. */
struct hall {
    _Atomic int ready, failed, done;
    _Atomic int64_t start_ns; /* 0: not yet */
    int64_t duration_ns;
    _Atomic int64_t ended_ns; /* the last worker did */
    _Atomic int64_t allocations;
    _Atomic int last; /* who held it, for BENCH_HANDOFF */
    _Atomic int64_t released_ns;
    char why[BENCH_WHY_SIZE]; /* of the first that failed */
    struct seat seats[BENCH_WORKERS_MAX];
};

struct worker {
    const struct bench_work *work;
    const struct bench_load *load;
    struct hall *hall;
    struct bench_place place;
    void *process, *self;
    int index;
    char why[BENCH_WHY_SIZE];
};

static void give_up(struct worker *worker)
{
    if (atomic_exchange(&worker->hall->failed, 1) == 0)
        memcpy(worker->hall->why, worker->why, sizeof worker->hall->why);
}

static int take(struct worker *worker)
{
    int rc = worker->work->lock(worker->self, worker->why);

    if (rc != 0)
        give_up(worker);
    return rc;
}

static int give(struct worker *worker)
{
    int rc = worker->work->unlock(worker->self, worker->why);

    if (rc != 0)
        give_up(worker);
    return rc;
}

/* Non-zero: nobody failed, and the time is not over or nobody has done anything in it. */
static int goes_on(const struct worker *worker)
{
    const struct hall *hall = worker->hall;

    return !atomic_load(&hall->failed) &&
           (bench_now_ns() < hall->start_ns + hall->duration_ns || !atomic_load(&hall->done));
}

static void count(struct worker *worker, int64_t ns)
{
    struct seat *seat = &worker->hall->seats[worker->index];

    seat->pairs++;
    bench_histogram_add(&seat->times, (uint64_t)ns);
    if (!atomic_load(&worker->hall->done))
        atomic_store(&worker->hall->done, 1);
}

static void loop_pairs(struct worker *worker)
{
    while (goes_on(worker)) {
        int64_t asked_ns = bench_now_ns(), held_ns = 0, before_ns = 0;

        if (take(worker) != 0)
            return;
        if (worker->load->held_ns != 0) {
            before_ns = bench_now_ns();
            bench_sleep_ns(worker->load->held_ns);
            held_ns = bench_now_ns() - before_ns;
        }
        if (give(worker) != 0)
            return;
        count(worker, bench_now_ns() - asked_ns - held_ns);
        bench_sleep_ns(worker->load->pause_ns);
    }
}

static void loop_handoff(struct worker *worker)
{
    struct hall *hall = worker->hall;

    while (goes_on(worker)) {
        int64_t now_ns = 0;

        if (take(worker) != 0)
            return;
        now_ns = bench_now_ns();
        if (atomic_load(&hall->last) != NOBODY && atomic_load(&hall->last) != worker->index)
            count(worker, now_ns - atomic_load(&hall->released_ns));
        atomic_store(&hall->last, worker->index);
        bench_sleep_ns(worker->load->held_ns);
        atomic_store(&hall->released_ns, bench_now_ns());
        if (give(worker) != 0)
            return;
        while (goes_on(worker) && atomic_load(&hall->last) == worker->index)
            bench_sleep_ns(GLANCE_NS);
    }
}

static void wait_for_start(const struct hall *hall)
{
    while (atomic_load(&hall->start_ns) == 0 && !atomic_load(&hall->failed))
        bench_sleep_ns(GLANCE_NS);
    bench_sleep_ns(atomic_load(&hall->start_ns) - bench_now_ns());
}

static void loop(struct worker *worker)
{
    int64_t before = bench_allocations();

    if (worker->load->loop == BENCH_HANDOFF)
        loop_handoff(worker);
    else
        loop_pairs(worker);
    if (worker->index == 0)
        atomic_store(&worker->hall->allocations, before < 0 ? -1 : bench_allocations() - before);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct hall *hall = worker->hall;
    int64_t ended_ns = 0, last_ns = 0;

    worker->self = worker->work->join(worker->process, &worker->place, worker->index, worker->why);
    if (worker->self == NULL) {
        give_up(worker);
        return NULL;
    }
    if (take(worker) == 0 && give(worker) == 0) {
        (void)atomic_fetch_add(&hall->ready, 1);
        wait_for_start(hall);
        loop(worker);
    }
    ended_ns = bench_now_ns();
    last_ns = atomic_load(&hall->ended_ns);
    while (ended_ns > last_ns && !atomic_compare_exchange_weak(&hall->ended_ns, &last_ns, ended_ns))
        continue;
    return NULL;
}

static void threads_run(struct worker *workers, int count)
{
    pthread_t threads[BENCH_WORKERS_MAX];
    int started = 0;

    while (started < count &&
           pthread_create(&threads[started], NULL, worker_main, &workers[started]) == 0)
        started++;
    if (started < count) {
        (void)snprintf(workers[0].why, BENCH_WHY_SIZE, "cannot start %d threads", count);
        give_up(&workers[0]);
    }
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < started; i++)
        if (workers[i].self != NULL)
            workers[i].work->leave(workers[i].self);
}

/* Of one process, the number-th. */
static void process_run(const struct worker *model, int number)
{
    struct worker workers[BENCH_WORKERS_MAX];
    int threads = model->load->threads;

    for (int i = 0; i < threads; i++) {
        workers[i] = *model;
        workers[i].index = number * threads + i;
    }
    workers[0].process = model->work->open(&model->place, workers[0].why);
    if (workers[0].process == NULL) {
        give_up(&workers[0]);
        return;
    }
    for (int i = 1; i < threads; i++)
        workers[i].process = workers[0].process;
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

static int processes_start(const struct worker *model, pid_t *pids)
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

/* A process that died says nothing; the others have to be told. */
static void processes_watch(struct hall *hall, const struct bench_load *load)
{
    siginfo_t info = {0};

    while (atomic_load(&hall->ready) < load->processes * load->threads &&
           !atomic_load(&hall->failed)) {
        bench_sleep_ns(GLANCE_NS);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
            info.si_code != CLD_EXITED)
            atomic_store(&hall->failed, 1);
    }
    atomic_store(&hall->start_ns, bench_now_ns() + BENCH_NS_PER_MS);
}

static void processes_wait(struct hall *hall, const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++) {
        int status = 0;

        (void)waitpid(pids[i], &status, 0);
        if (status != 0 && atomic_exchange(&hall->failed, 1) == 0)
            (void)snprintf(hall->why, sizeof hall->why, "a process ended with status %d", status);
    }
}

static void result_fill(struct bench_result *result, const struct hall *hall,
                        const struct bench_load *load)
{
    uint64_t all = 0, first = 0, least = UINT64_MAX, most = 0;

    memset(&result->times, 0, sizeof result->times);
    for (int i = 0; i < load->processes * load->threads; i++) {
        const struct seat *seat = &hall->seats[i];

        all += seat->pairs;
        first += i < load->threads ? seat->pairs : 0;
        least = seat->pairs < least ? seat->pairs : least;
        most = seat->pairs > most ? seat->pairs : most;
        bench_histogram_merge(&result->times, &seat->times);
    }
    result->rate = (double)all * (double)BENCH_NS_PER_S / (double)(hall->ended_ns - hall->start_ns);
    result->share = most == 0 ? 0 : (double)least / (double)most;
    result->allocations =
        hall->allocations < 0 || first == 0 ? -1 : (double)hall->allocations / (double)first;
}

static int crew_run(const struct worker *model, struct bench_result *result)
{
    struct hall *hall = model->hall;
    pid_t pids[BENCH_WORKERS_MAX];
    int started = processes_start(model, pids);

    if (started < model->load->processes) {
        atomic_store(&hall->failed, 1);
        (void)snprintf(hall->why, sizeof hall->why, "cannot start %d processes",
                       model->load->processes);
    }
    processes_watch(hall, model->load);
    processes_wait(hall, pids, started);
    (void)snprintf(result->why, sizeof result->why, "%s",
                   hall->failed && hall->why[0] == '\0' ? "a process died" : hall->why);
    result_fill(result, hall, model->load);
    return hall->failed ? -1 : 0;
}

int bench_crew_run(const struct bench_work *work, const char *uri, const struct bench_load *load,
                   int64_t duration_ns, struct bench_result *result)
{
    struct worker model = {.work = work, .load = load, .place = {uri, load->one_name}};
    struct hall *hall =
        mmap(NULL, sizeof *hall, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rc = -1;

    if (hall == MAP_FAILED) {
        (void)snprintf(result->why, sizeof result->why, "no memory");
        return -1;
    }
    hall->duration_ns = duration_ns;
    hall->last = NOBODY;
    model.hall = hall;
    rc = crew_run(&model, result);
    (void)munmap(hall, sizeof *hall);
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
            for (volatile uint64_t turns = 0;; turns++)
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
