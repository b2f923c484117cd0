/* SPDX-License-Identifier: MIT */
/*
 * Waiters through restarts, killed connections and flushed scripts (failures T39, T40, T49; C1, C8,
 * C13). The server forgets nothing, so that exclusion is promised throughout. Runs under
 * ThreadSanitizer, too.
 */
#include "redis_server.h"
#include "tap.h"

#include <dirent.h>
#include <dlock/dlock.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 5, THREADS = 10, NAMES = 3, RESTARTS = 5 };

#define NS_PER_MS INT64_C(1000000)

static struct dlt_redis server;
static struct dlock_client *clients[CLIENTS];
static _Atomic int owners[NAMES];
static _Atomic int stop, overlaps, late, oddities;
static _Atomic long acquisitions;

struct worker {
    struct dlock_client *client;
    unsigned number;
    _Atomic long count;
    pthread_t thread;
};

static struct worker workers[CLIENTS * THREADS];

static void sleep_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

static int64_t now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / NS_PER_MS;
}

/* What a fault of the server may be answered with. */
static bool expected(enum dlock_status status)
{
    return status == DLOCK_TIMEOUT || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE ||
           status == DLOCK_LOST;
}

static void hold(struct worker *worker)
{
    _Atomic int *owner = &owners[worker->number % NAMES];

    if (atomic_fetch_add(owner, 1) != 0)
        atomic_fetch_add(&overlaps, 1);
    if (worker->number % 7 == 0)
        sleep_ms(1);
    atomic_fetch_sub(owner, 1);
    atomic_fetch_add(&worker->count, 1);
    atomic_fetch_add(&acquisitions, 1);
}

static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    struct dlock_options options = {.struct_size = sizeof options, .ttl_ms = 20000};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock *lock = NULL;
    char name[16];

    (void)snprintf(name, sizeof name, "storm%u", worker->number % NAMES);
    if (dlock_new(worker->client, name, strlen(name), &options, &lock, &err) != DLOCK_OK)
        abort();
    while (!atomic_load(&stop)) {
        int64_t begin = now_ms();
        enum dlock_status status = dlock_timedlock(lock, 3000, &err);

        if (now_ms() - begin > 3000 + 10000)
            atomic_fetch_add(&late, 1);
        if (status == DLOCK_OK) {
            hold(worker);
            status = dlock_unlock(lock, &err);
        }
        if (status != DLOCK_OK && !expected(status) && atomic_fetch_add(&oddities, 1) == 0)
            printf("# %s: %s\n", dlock_status_name((int)status), err.message);
        if (status == DLOCK_UNAVAILABLE)
            sleep_ms(10);
    }
    dlock_free(lock);
    return NULL;
}

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

/* How many workers have taken a lock since. */
static int moved_on(const long *before)
{
    int count = 0;

    for (int i = 0; i < CLIENTS * THREADS; i++)
        count += atomic_load(&workers[i].count) > before[i];
    return count;
}

static bool all_move_on(void)
{
    long before[CLIENTS * THREADS];
    int64_t until = now_ms() + 30000;

    for (int i = 0; i < CLIENTS * THREADS; i++)
        before[i] = atomic_load(&workers[i].count);
    while (moved_on(before) < CLIENTS * THREADS && now_ms() < until)
        sleep_ms(20);
    return moved_on(before) == CLIENTS * THREADS;
}

static void start(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    char uri[64];

    (void)snprintf(uri, sizeof uri, "redis://127.0.0.1:%u", server.port);
    for (int i = 0; i < CLIENTS; i++)
        if (dlock_client_open(uri, NULL, &clients[i], &err) != DLOCK_OK)
            abort();
    for (unsigned i = 0; i < CLIENTS * THREADS; i++) {
        workers[i].client = clients[i % CLIENTS];
        workers[i].number = i;
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
            abort();
    }
}

static void finish(void)
{
    atomic_store(&stop, 1);
    for (int i = 0; i < CLIENTS * THREADS; i++)
        (void)pthread_join(workers[i].thread, NULL);
}

int main(void)
{
    int before = 0;

    if (!dlt_redis_start(&server,
                         (const char *[]){"--appendonly", "yes", "--appendfsync", "always", NULL}))
        abort();
    start();
    (void)dlt_ok(all_move_on(), "C13 50 waiters of 5 clients take turns");
    before = descriptors();
    for (int i = 0; i < 20; i++) {
        sleep_ms(20);
        (void)dlt_redis_ask(&server, "SCRIPT FLUSH");
        (void)dlt_redis_ask(&server, "CLIENT KILL TYPE %s SKIPME yes",
                            i % 3 == 0 ? "pubsub" : "normal");
    }
    (void)dlt_ok(all_move_on(), "T40 T49 they go on after flushed scripts and killed connections");
    for (int i = 0; i < RESTARTS; i++) {
        sleep_ms(100);
        dlt_redis_kill(&server);
        sleep_ms(i * 100);
        if (!dlt_redis_again(&server))
            abort();
    }
    (void)dlt_ok(all_move_on(), "T39 they go on after %d restarts", RESTARTS);
    dlt_redis_pause(&server, true);
    sleep_ms(500);
    dlt_redis_pause(&server, false);
    (void)dlt_ok(all_move_on(), "C8 they go on after a pause of the server");
    (void)dlt_ok(descriptors() <= before + CLIENTS * 18, "no descriptors are lost: %d, then %d",
                 before, descriptors());
    finish();
    (void)dlt_ok(overlaps == 0, "C1 %d overlaps in %ld acquisitions", (int)overlaps,
                 (long)acquisitions);
    (void)dlt_ok(late == 0, "C8 %d calls ended late", (int)late);
    (void)dlt_ok(oddities == 0, "C4 %d answers that a fault does not explain", (int)oddities);
    for (int i = 0; i < CLIENTS; i++)
        dlock_client_close(clients[i]);
    dlt_redis_stop(&server);
    return dlt_done();
}
