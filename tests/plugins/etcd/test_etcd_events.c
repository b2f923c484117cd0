/* SPDX-License-Identifier: MIT */
/*
 * 100 clients wait for one name: how many events does etcd send for a hand-off? One, to the next
 * in the queue: a store that wakes all of them would send 100. And how soon does it come, while
 * others write? A watch that begins in the past is told in steps of 100 ms. (C1, C13)
 */
#include "etcd_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLIENTS 100
#define THREADS CLIENTS
#define WAIT_MS 120000
#define EVENTS  "etcd_debugging_mvcc_events_total"

static struct dlt_etcd server;
static struct dlock_client *clients[CLIENTS];
static _Atomic int got, failed, waiting, inside, overlaps;

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static struct dlock *lock_new(struct dlock_client *client)
{
    struct dlock *lock = NULL;

    if (dlock_new(client, "name", 4, NULL, &lock, NULL) != DLOCK_OK)
        abort();
    return lock;
}

static void *wait_once(void *arg)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock *lock = lock_new(arg);

    atomic_fetch_add(&waiting, 1);
    if (dlock_timedlock(lock, WAIT_MS, &err) == DLOCK_OK) {
        if (atomic_fetch_add(&inside, 1) != 0)
            atomic_fetch_add(&overlaps, 1);
        sleep_ms(1);
        atomic_fetch_sub(&inside, 1);
        atomic_fetch_add(&got, 1);
        if (dlock_unlock(lock, &err) != DLOCK_OK)
            atomic_fetch_add(&failed, 1);
    } else if (atomic_fetch_add(&failed, 1) == 0) {
        printf("# %s\n", err.message);
    }
    dlock_free(lock);
    return NULL;
}

static void queue_await(void)
{
    for (int i = 0; i < 200 && atomic_load(&waiting) < THREADS; i++)
        sleep_ms(10);
    sleep_ms(1000);
}

static void hand_off(void)
{
    pthread_t threads[THREADS];
    struct dlock *first = lock_new(clients[0]);
    struct dlock_error err = DLOCK_ERROR_INIT;
    double before = 0, events = 0;

    if (dlock_timedlock(first, WAIT_MS, &err) != DLOCK_OK)
        abort();
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, wait_once, clients[i % CLIENTS]) != 0)
            abort();
    queue_await();
    before = dlt_etcd_metric(&server, 0, EVENTS);
    (void)dlock_unlock(first, &err);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    events = dlt_etcd_metric(&server, 0, EVENTS) - before;
    (void)dlt_ok(got == THREADS && failed == 0, "C13 %d of %d got it", (int)got, THREADS);
    (void)dlt_ok(overlaps == 0, "C1 one after the other");
    (void)dlt_ok(before >= 0 && events > 0 && events <= 1.2 * THREADS,
                 "%.0f events in %d hand-offs", events, THREADS);
    dlock_free(first);
}

/* ---- two clients take turns ---- */

#define TURNS     60
#define MEDIAN_MS 30 /* of a busy machine; about one on a quiet one */

static _Atomic int64_t released_ns;
static _Atomic int last, counted, over;
static int64_t took_ns[2 * TURNS];

static int64_t now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void *take_turns(void *arg)
{
    int self = *(int *)arg;
    struct dlock *lock = lock_new(clients[self]);

    for (int i = 0; i < TURNS; i++) {
        if (dlock_timedlock(lock, WAIT_MS, NULL) != DLOCK_OK)
            abort();
        if (atomic_load(&last) != self && atomic_load(&released_ns) != 0)
            took_ns[atomic_fetch_add(&counted, 1)] = now_ns() - atomic_load(&released_ns);
        atomic_store(&last, self);
        sleep_ms(2); /* the other one begins to wait */
        atomic_store(&released_ns, now_ns());
        (void)dlock_unlock(lock, NULL);
        sleep_ms(1);
    }
    dlock_free(lock);
    return NULL;
}

static void *write_on(void *arg)
{
    struct dlock *lock = NULL;

    if (dlock_new(arg, "another", 7, NULL, &lock, NULL) != DLOCK_OK)
        abort();
    while (!atomic_load(&over))
        if (dlock_timedlock(lock, WAIT_MS, NULL) == DLOCK_OK)
            (void)dlock_unlock(lock, NULL);
    dlock_free(lock);
    return NULL;
}

static int by_size(const void *one, const void *other)
{
    const int64_t *a = one, *b = other;

    return (*a > *b) - (*a < *b);
}

static void turns(void)
{
    static int selves[] = {0, 1};
    pthread_t threads[3];
    double median_ms = 0;

    if (pthread_create(&threads[2], NULL, write_on, clients[2]) != 0)
        abort();
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, take_turns, &selves[i]) != 0)
            abort();
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    atomic_store(&over, 1);
    (void)pthread_join(threads[2], NULL);
    qsort(took_ns, (size_t)counted, sizeof took_ns[0], by_size);
    median_ms = (double)took_ns[counted / 2] / 1e6;
    (void)dlt_ok(counted > TURNS && median_ms < MEDIAN_MS,
                 "%.1f ms from an unlock to the next lock, in the median of %d", median_ms,
                 (int)counted);
}

int main(void)
{
    char uri[256];

    if (!dlt_etcd_start(&server, NULL)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    (void)snprintf(uri, sizeof uri, "etcd://%s/events", server.hosts);
    for (int i = 0; i < CLIENTS; i++)
        if (dlock_client_open(uri, NULL, &clients[i], NULL) != DLOCK_OK)
            abort();
    hand_off();
    turns();
    for (int i = 0; i < CLIENTS; i++)
        dlock_client_close(clients[i]);
    dlt_etcd_stop(&server);
    return dlt_done();
}
