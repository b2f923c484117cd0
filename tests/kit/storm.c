/* SPDX-License-Identifier: MIT */
#include "storm.h"
#include "ruler.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_MS   INT64_C(1000000)
#define LATE_MS     10000
#define GOES_ON_MS  60000
#define TTL_MS      20000
#define WAIT_MS     3000
#define WRITER      DLT_STORM_THREADS /* inside */
#define HOLDS_EVERY 7                 /* one of so many threads stays inside for a ms */

struct dlt_storm_worker {
    struct dlt_storm *storm;
    unsigned number;
    _Atomic long count;
    pthread_t thread;
};

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS},
                    NULL);
}

static int64_t now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / NS_PER_MS;
}

/* What a fault of the server may be answered with. */
static bool explained(const struct dlt_storm *storm, enum dlock_status status)
{
    if (status == DLOCK_OK || storm->calm)
        return status == DLOCK_OK;
    return status == DLOCK_TIMEOUT || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE ||
           status == DLOCK_LOST;
}

static bool reads(const struct dlt_storm_worker *worker)
{
    unsigned every = worker->storm->readers_every;

    return every != 0 && worker->number / worker->storm->names % every == 0;
}

static void hold(struct dlt_storm_worker *worker, uint64_t fence)
{
    struct dlt_storm *storm = worker->storm;
    unsigned name = worker->number % storm->names;
    int weight = reads(worker) ? 1 : WRITER;
    int others = atomic_fetch_add(&storm->inside[name], weight);

    if (reads(worker) ? others >= WRITER : others != 0)
        atomic_fetch_add(&storm->overlaps, 1);
    if (!reads(worker) && atomic_exchange(&storm->fence[name], fence) >= fence)
        atomic_fetch_add(&storm->fences_fallen, 1);
    if (worker->number % HOLDS_EVERY == 0)
        sleep_ms(1);
    atomic_fetch_sub(&storm->inside[name], weight);
    atomic_fetch_add(&worker->count, 1);
    atomic_fetch_add(&storm->acquisitions, 1);
}

static void turn(struct dlt_storm_worker *worker, struct dlock_handle *lock)
{
    struct dlt_storm *storm = worker->storm;
    struct dlock_error err = DLOCK_ERROR_INIT;
    int64_t begin = now_ms();
    enum dlock_status status = reads(worker) ? dlock_timedrdlock(lock, storm->wait_ms, &err)
                                             : dlock_timedlock(lock, storm->wait_ms, &err);

    if (!dlt_took_within(now_ms() - begin, storm->wait_ms + LATE_MS))
        atomic_fetch_add(&storm->late, 1);
    if (status == DLOCK_OK) {
        hold(worker, dlock_fence(lock));
        status = dlock_unlock(lock, &err);
    }
    if (!explained(storm, status) && atomic_fetch_add(&storm->oddities, 1) == 0)
        printf("# %s: %s\n", dlock_status_name((int)status), err.message);
    if (status == DLOCK_UNAVAILABLE)
        sleep_ms(10);
}

static void *worker_run(void *arg)
{
    struct dlt_storm_worker *worker = arg;
    struct dlt_storm *storm = worker->storm;
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = storm->ttl_ms};
    struct dlock_handle *lock = NULL;
    char name[16];

    (void)snprintf(name, sizeof name, "storm%u", worker->number % storm->names);
    if (dlock_new(storm->client[worker->number % storm->clients], name, strlen(name), &options,
                  &lock, NULL) != DLOCK_OK)
        abort();
    while (!atomic_load(&storm->stop))
        turn(worker, lock);
    dlock_free(lock);
    return NULL;
}

static bool clients_open(struct dlt_storm *storm)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    for (unsigned i = 0; i < storm->clients; i++) {
        if (dlock_client_open(storm->uri, NULL, &storm->client[i], &err) != DLOCK_OK) {
            printf("# %s\n", err.message);
            (void)fflush(stdout);
            return false;
        }
    }
    return true;
}

bool dlt_storm_start(struct dlt_storm *storm)
{
    storm->ttl_ms = storm->ttl_ms > 0 ? storm->ttl_ms : TTL_MS;
    storm->wait_ms = storm->wait_ms > 0 ? storm->wait_ms : WAIT_MS;
    if (storm->clients > DLT_STORM_CLIENTS || storm->names > DLT_STORM_NAMES ||
        storm->threads > DLT_STORM_THREADS || !clients_open(storm))
        return false;
    storm->workers = calloc(storm->threads, sizeof *storm->workers);
    if (storm->workers == NULL)
        return false;
    for (unsigned i = 0; i < storm->threads; i++) {
        storm->workers[i].storm = storm;
        storm->workers[i].number = i;
        if (pthread_create(&storm->workers[i].thread, NULL, worker_run, &storm->workers[i]) != 0)
            abort();
    }
    return true;
}

/* How many threads have got a lock since. */
static unsigned moved_on(const struct dlt_storm *storm, const long *before)
{
    unsigned count = 0;

    for (unsigned i = 0; i < storm->threads; i++)
        count += atomic_load(&storm->workers[i].count) > before[i];
    return count;
}

bool dlt_storm_goes_on(struct dlt_storm *storm)
{
    long before[DLT_STORM_THREADS];
    int64_t until = now_ms() + GOES_ON_MS;

    for (unsigned i = 0; i < storm->threads; i++)
        before[i] = atomic_load(&storm->workers[i].count);
    while (moved_on(storm, before) < storm->threads && now_ms() < until)
        sleep_ms(20);
    return moved_on(storm, before) == storm->threads;
}

void dlt_storm_end(struct dlt_storm *storm)
{
    atomic_store(&storm->stop, 1);
    for (unsigned i = 0; i < storm->threads; i++)
        (void)pthread_join(storm->workers[i].thread, NULL);
    for (unsigned i = 0; i < storm->clients; i++)
        dlock_client_close(storm->client[i]);
    free(storm->workers);
    storm->workers = NULL;
}

int dlt_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}
