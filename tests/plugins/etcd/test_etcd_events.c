/* SPDX-License-Identifier: MIT */
/*
 * 100 clients wait for one name: how many events does etcd send for a hand-off? One, to the next
 * in the queue: a store that wakes all of them would send 100. (C1, C13)
 */
#include "drop.h"
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

static struct dlock_handle *lock_new(struct dlock_client *client)
{
    struct dlock_handle *lock = NULL;

    if (dlock_new(client, "name", 4, NULL, &lock, NULL) != DLOCK_OK)
        abort();
    return lock;
}

static void *wait_once(void *arg)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = lock_new(arg);

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
    struct dlock_handle *first = lock_new(clients[0]);
    struct dlock_error err = DLOCK_ERROR_INIT;
    double before = 0, events = 0;

    if (dlock_timedlock(first, WAIT_MS, &err) != DLOCK_OK)
        abort();
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, wait_once, clients[i % CLIENTS]) != 0)
            abort();
    queue_await();
    before = dlt_etcd_metric(&server, 0, EVENTS);
    dlt_drop(dlock_unlock(first, &err));
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    events = dlt_etcd_metric(&server, 0, EVENTS) - before;
    (void)dlt_ok(got == THREADS && failed == 0, "C13 %d of %d got it", (int)got, THREADS);
    (void)dlt_ok(overlaps == 0, "C1 one after the other");
    (void)dlt_ok(before >= 0 && events > 0 && events <= 1.2 * THREADS,
                 "%.0f events in %d hand-offs", events, THREADS);
    dlock_free(first);
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
    for (int i = 0; i < CLIENTS; i++)
        dlock_client_close(clients[i]);
    dlt_etcd_stop(&server);
    return dlt_done();
}
