/* SPDX-License-Identifier: MIT */
/*
 * Do handles and clients survive going while others use them? Each race many times, in real time;
 * for ThreadSanitizer and AddressSanitizer to watch, hence without Criterion.
 */
#include "drop.h"
#include "engine.h"
#include "hold/renew_schedule.h"
#include "tap.h"

#include <dlock/metrics.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS       1000
#define THREADS      4
#define CLASS_ROUNDS 100

static struct dlt_engine engine;
static int bad; /* answers that nothing explains, in this race */

static void expect(bool good, const char *what, int status)
{
    if (good)
        return;
    bad++;
    printf("# %s: %s\n", what, dlock_status_name(status));
}

/* A moment of no fixed length, on the processor. */
static void dawdle(unsigned round)
{
    for (volatile unsigned i = 0; i < round * 7919 % 20011; i++)
        continue;
}

static void begin(const struct dlt_setup *setup)
{
    struct dlt_setup real = setup == NULL ? (struct dlt_setup){.runs = 1} : *setup;

    real.runs = 1;
    dlt_engine_open(&engine, "race", &real);
    memory_hooks_reset("race");
}

static struct dlock_handle *take(const char *name)
{
    struct dlock_handle *lock = dlt_engine_lock(&engine, name, NULL);
    enum dlock_status status = dlock_lock(lock, NULL);

    expect(status == DLOCK_OK, "take", (int)status);
    return lock;
}

/* The renewer renews everything now. */
static void renew_now(void)
{
    struct dlock_client *client = engine.client;
    int64_t now_ns = dl_client_now(client);

    (void)pthread_mutex_lock(&client->mutex);
    for (struct dlock_handle *lock = client->locks; lock != NULL; lock = lock->next)
        if (lock->due.heap_index != 0 && lock->renewal.automatic) {
            lock->renewal.at_ns = now_ns;
            dl_renew_schedule_set_locked(lock, now_ns);
        }
    (void)pthread_mutex_unlock(&client->mutex);
}

static unsigned queued_on(struct dlock_handle *lock)
{
    unsigned queued;

    (void)pthread_mutex_lock(&lock->client->mutex);
    queued = lock->queued;
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return queued;
}

static void free_while_it_waits(unsigned round)
{
    struct dlock_handle *held = take("a"), *waiting = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    dlt_call_start(&wait, &engine, DLT_LOCK, waiting, 0);
    (void)memory_hooks_await("race", MEMORY_TRYLOCK, 2 * (round + 1), 10000);
    dawdle(round);
    dlock_free(waiting);
    (void)dlt_call_finish(&wait, 0);
    expect(wait.status == DLOCK_CANCELED, "wait", (int)wait.status);
    dlock_free(held);
}

static void cancel_against_grant(unsigned round)
{
    struct dlock_handle *held = take("a"), *waiting = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait, unlock;

    dlt_call_start(&wait, &engine, DLT_LOCK, waiting, 0);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
    dawdle(round);
    dlock_cancel(waiting);
    (void)dlt_call_finish(&unlock, 0);
    expect(unlock.status == DLOCK_OK, "unlock", (int)unlock.status);
    (void)dlt_call_finish(&wait, 0);
    expect(wait.status == DLOCK_OK || wait.status == DLOCK_CANCELED, "wait", (int)wait.status);
    dlock_free(held);
    dlock_free(waiting);
}

/* A renewal in the store, a release and a second renewal queued behind it, and the handle goes. */
static void free_behind_a_queue(unsigned round)
{
    struct dlock_handle *lock = take("a");
    struct dlt_call renew, unlock, again;
    struct memory_fault hold = {.kind = MEMORY_HELD_REPLY};

    (void)memory_hooks_fault("race", MEMORY_RENEW, &hold);
    dlt_call_start(&renew, &engine, DLT_RENEW, lock, 0);
    while (memory_hooks_held("race") == 0)
        (void)sched_yield();
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, lock, 0);
    dlt_call_start(&again, &engine, DLT_RENEW, lock, 0);
    while (queued_on(lock) < 2)
        (void)sched_yield();
    memory_hooks_go("race");
    dawdle(round);
    dlock_free(lock);
    (void)dlt_call_finish(&renew, 0);
    expect(renew.status == DLOCK_OK, "renew", (int)renew.status);
    (void)dlt_call_finish(&unlock, 0);
    expect(unlock.status == DLOCK_OK || unlock.status == DLOCK_NOT_HELD, "unlock",
           (int)unlock.status);
    (void)dlt_call_finish(&again, 0);
    expect(again.status == DLOCK_OK || again.status == DLOCK_NOT_HELD, "again", (int)again.status);
}

static void unlock_against_renewals(unsigned round)
{
    struct dlock_handle *lock = take("a");
    struct dlt_call renew, unlock;

    dlt_call_start(&renew, &engine, DLT_RENEW, lock, 0);
    renew_now();
    dawdle(round);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, lock, 0);
    renew_now();
    (void)dlt_call_finish(&unlock, 0);
    expect(unlock.status == DLOCK_OK, "unlock", (int)unlock.status);
    (void)dlt_call_finish(&renew, 0);
    expect(renew.status == DLOCK_OK || renew.status == DLOCK_NOT_HELD, "renew", (int)renew.status);
    expect(dlock_state(lock) == DLOCK_STATE_FREE, "state", 0);
    dlock_free(lock);
}

/* The renewer learns of the loss while the application gives the lock back. */
static void unlock_against_loss(unsigned round)
{
    struct dlock_handle *lock = take("a");
    unsigned before = dlt_engine_losses(&engine);
    enum dlock_status status;

    expect(dlock_client_break(engine.client, "a", 1, NULL, NULL) == DLOCK_OK, "break", 0);
    renew_now();
    dawdle(round);
    status = dlock_unlock(lock, NULL);
    expect(status == DLOCK_LOST, "unlock", (int)status);
    dlock_free(lock);
    expect(dlt_engine_losses(&engine) <= before + 1, "told twice", 0);
}

static void callback_unlocks(struct dlt_engine *e, const struct dlock_notice *event)
{
    (void)e;
    dlt_drop(dlock_unlock(event->lock, NULL));
}

static void free_against_loss(unsigned round)
{
    struct dlock_handle *lock = take("a");

    expect(dlock_client_break(engine.client, "a", 1, NULL, NULL) == DLOCK_OK, "break", 0);
    renew_now();
    dawdle(round);
    dlock_free(lock);
}

/* ---- a client for each round ---- */

static void *use_until_closed(void *arg)
{
    struct dlock_handle *lock = arg;

    for (;;) {
        enum dlock_status status = dlock_lock(lock, NULL);

        if (status == DLOCK_CLOSED)
            return NULL;
        expect(status == DLOCK_OK, "lock", (int)status);
        status = dlock_renew(lock, 0, NULL);
        expect(status == DLOCK_OK || status == DLOCK_CLOSED || status == DLOCK_NOT_HELD, "renew",
               (int)status);
        status = dlock_unlock(lock, NULL);
        if (status == DLOCK_CLOSED || status == DLOCK_NOT_HELD) /* close was there first */
            continue;
        expect(status == DLOCK_OK, "unlock", (int)status);
    }
}

static void close_against_everything(unsigned round)
{
    pthread_t threads[THREADS];
    struct dlock_handle *locks[THREADS], *held;

    begin(&(struct dlt_setup){.callback = 1, .own = callback_unlocks});
    held = take("held");
    for (int i = 0; i < THREADS; i++) {
        locks[i] = dlt_engine_lock(&engine, i % 2 == 0 ? "a" : "b", NULL);
        if (pthread_create(&threads[i], NULL, use_until_closed, locks[i]) != 0)
            abort();
    }
    renew_now();
    dawdle(round);
    dlt_engine_close(&engine);
    expect(dlock_state(held) == DLOCK_STATE_FREE, "held after close", 0);
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        expect(dlock_trylock(locks[i], NULL) == DLOCK_CLOSED, "after close", 0);
        dlock_free(locks[i]);
    }
    dlock_free(held);
}

static void *free_all(void *arg)
{
    struct dlock_handle **locks = arg;

    for (int i = 0; i < THREADS; i++)
        dlock_free(locks[i]);
    return NULL;
}

static void close_against_frees(unsigned round)
{
    pthread_t thread;
    struct dlock_handle *locks[THREADS];
    char name[16];

    begin(&(struct dlt_setup){.callback = 1, .own = callback_unlocks});
    for (int i = 0; i < THREADS; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        locks[i] = take(name);
    }
    (void)dlock_client_break(engine.client, "n1", 2, NULL, NULL);
    renew_now();
    if (pthread_create(&thread, NULL, free_all, locks) != 0)
        abort();
    dawdle(round);
    dlt_engine_close(&engine);
    (void)pthread_join(thread, NULL);
}

/* ---- many threads, one counter ---- */

static long counter; /* guarded by the lock "counter", and by nothing else */

static void *count(void *arg)
{
    struct dlock_handle *lock = dlt_engine_lock(&engine, "counter", NULL);

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (dlock_lock(lock, NULL) != DLOCK_OK)
            abort();
        counter++;
        if (dlock_unlock(lock, NULL) != DLOCK_OK)
            abort();
    }
    dlock_free(lock);
    return NULL;
}

static void count_together(void)
{
    pthread_t threads[THREADS];

    begin(NULL);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, count, NULL) != 0)
            abort();
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    dlt_engine_close(&engine);
    (void)dlt_ok(counter == THREADS * ROUNDS, "C1: %d threads count to %ld", THREADS, counter);
}

static _Atomic int classes_over;

/* Names of classes that no other thread has. */
static void *lock_classes(void *arg)
{
    char name[32];

    for (int i = 0; i < CLASS_ROUNDS; i++) {
        struct dlock_handle *lock;

        (void)snprintf(name, sizeof name, "t%d-%d:x", *(const int *)arg, i);
        lock = dlt_engine_lock(&engine, name, NULL);
        if (dlock_lock(lock, NULL) != DLOCK_OK || dlock_unlock(lock, NULL) != DLOCK_OK)
            abort();
        dlock_free(lock);
    }
    atomic_fetch_add(&classes_over, 1);
    return NULL;
}

static bool text_drop(void *arg, const char *text, size_t len)
{
    *(size_t *)arg += len + (text[0] == '\0');
    return false;
}

/* metrics.h: numbers may be read at any time, and never fall. */
static void read_while_counted(void)
{
    struct dlock_stats stats = {.struct_size = sizeof stats};
    uint64_t before = 0;
    size_t text = 0;
    pthread_t threads[THREADS];
    int numbers[THREADS];

    bad = 0;
    begin(NULL);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, lock_classes, &numbers[i]) != 0)
            abort();
    }
    while (atomic_load(&classes_over) < THREADS) {
        expect(dlock_client_stats(engine.client, &stats, NULL) == DLOCK_OK &&
                   stats.acquisitions[DLOCK_OK] >= before,
               "numbers that fall", 0);
        before = stats.acquisitions[DLOCK_OK];
        expect(dlock_client_metrics(engine.client, NULL, text_drop, &text, NULL) == DLOCK_OK,
               "text", 0);
        (void)sched_yield();
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    expect(dlock_client_stats(engine.client, &stats, NULL) == DLOCK_OK, "stats", 0);
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0 && stats.acquisitions[DLOCK_OK] == THREADS * CLASS_ROUNDS &&
                     stats.holds.count == THREADS * CLASS_ROUNDS && stats.held == 0 &&
                     stats.classes == DLOCK_STATS_CLASSES,
                 "numbers are read while %d threads make classes and count", THREADS);
}

/* own_client: the race opens and closes one in each round. */
static void race(const char *name, void (*round)(unsigned), bool own_client)
{
    struct dlt_setup setup = {.callback = 1};

    bad = 0;
    if (round == free_against_loss)
        setup.own = callback_unlocks;
    if (!own_client)
        begin(&setup);
    for (unsigned i = 0; i < ROUNDS && bad == 0; i++)
        round(i);
    if (!own_client)
        dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "%s, %d times", name, ROUNDS);
}

int main(void)
{
    race("free while the handle waits", free_while_it_waits, false);
    race("cancel against grant", cancel_against_grant, false);
    race("free behind a queue of calls", free_behind_a_queue, false);
    race("unlock against renewals", unlock_against_renewals, false);
    race("unlock against loss", unlock_against_loss, false);
    race("free against a callback that unlocks", free_against_loss, false);
    race("close against locks, unlocks and renewals", close_against_everything, true);
    race("close against frees and callbacks", close_against_frees, true);
    count_together();
    read_while_counted();
    return dlt_done();
}
