/* SPDX-License-Identifier: MIT */
/* Tests: core/acquire/local_waiter.c core/acquire/acquire.c */
/*
 * Do waiters, hand-offs and grants survive cancellation, deadlines and teardown at any moment, and
 * do readers and writers exclude each other (C12)? Two clients of one store, in real time; for
 * ThreadSanitizer and AddressSanitizer to watch, hence without Criterion.
 */
#include "drop.h"
#include "engine.h"
#include "tap.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS  1000
#define THREADS 6

static struct dlt_engine engine;
static struct dlock_client *rival;
static _Atomic int bad; /* answers that nothing explains, in this race */

static void expect(bool good, const char *what, int status)
{
    if (good)
        return;
    bad++;
    printf("# %s: %s\n", what, dlock_status_name(status));
}

static void dawdle(unsigned round)
{
    for (volatile unsigned i = 0; i < round * 7919 % 20011; i++)
        continue;
}

static struct dlock_handle *handle(struct dlock_client *client)
{
    struct dlock_handle *lock = NULL;

    if (dlock_new(client, "a", 1, NULL, &lock, NULL) != DLOCK_OK)
        abort();
    return lock;
}

static bool ended(enum dlock_status status)
{
    return status == DLOCK_OK || status == DLOCK_CANCELED || status == DLOCK_TIMEOUT ||
           status == DLOCK_CLOSED;
}

/* The holder is ours or the rival's, by turns: a hand-off, or a grant by the store. */
static struct dlock_handle *hold(unsigned round)
{
    struct dlock_handle *held = handle(round % 2 == 0 ? engine.client : rival);

    expect(dlock_lock(held, NULL) == DLOCK_OK, "hold", 0);
    return held;
}

static void cancel_against_unlock(unsigned round)
{
    struct dlock_handle *held = hold(round), *waiting = handle(engine.client);
    struct dlt_call wait, unlock;

    dlt_call_start(&wait, &engine, DLT_LOCK, waiting, 0);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
    dawdle(round);
    dlock_cancel(waiting);
    (void)dlt_call_finish(&unlock, 0);
    expect(unlock.status == DLOCK_OK, "unlock", (int)unlock.status);
    (void)dlt_call_finish(&wait, 0);
    expect(ended(wait.status), "wait", (int)wait.status);
    dlock_free(waiting);
    dlock_free(held);
}

/* Until the call is inside the library, or over: free is no match for one that has yet to begin. */
static void await_entry(struct dlt_call *call)
{
    bool in = false;

    while (!in && !call->done) {
        (void)pthread_mutex_lock(&engine.client->mutex);
        in = call->lock->phase != DL_PHASE_IDLE;
        (void)pthread_mutex_unlock(&engine.client->mutex);
        (void)sched_yield();
    }
}

static void free_against_unlock(unsigned round)
{
    struct dlock_handle *held = hold(round), *waiting = handle(engine.client);
    struct dlt_call wait, unlock, freeing;

    dlt_call_start(&wait, &engine, DLT_LOCK, waiting, 0);
    await_entry(&wait);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
    dawdle(round);
    dlt_call_start(&freeing, &engine, DLT_FREE, waiting, 0);
    (void)dlt_call_finish(&unlock, 0);
    (void)dlt_call_finish(&wait, 0);
    expect(ended(wait.status), "wait", (int)wait.status);
    (void)dlt_call_finish(&freeing, 0);
    dlock_free(held);
}

static void deadline_against_unlock(unsigned round)
{
    struct dlock_handle *held = hold(round), *waiting = handle(engine.client);
    struct dlt_call wait;

    dlt_call_start(&wait, &engine, DLT_TIMEDLOCK, waiting, 1 + round % 3);
    for (unsigned i = 0; i < 20; i++)
        dawdle(round);
    expect(dlock_unlock(held, NULL) == DLOCK_OK, "unlock", 0);
    (void)dlt_call_finish(&wait, 0);
    expect(ended(wait.status), "wait", (int)wait.status);
    dlock_free(waiting);
    dlock_free(held);
}

static void *wait_once(void *arg)
{
    struct dlock_handle *lock = arg;
    enum dlock_status status = dlock_lock(lock, NULL);

    expect(ended(status), "wait", (int)status);
    if (status == DLOCK_OK)
        dlt_drop(dlock_unlock(lock, NULL));
    return NULL;
}

static void line_up(struct dlock_handle *locks[THREADS], pthread_t threads[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        locks[i] = handle(engine.client);
        if (pthread_create(&threads[i], NULL, wait_once, locks[i]) != 0)
            abort();
    }
}

static void line_down(struct dlock_handle *locks[THREADS], pthread_t threads[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        dlock_free(locks[i]);
    }
}

static void close_against_a_line(unsigned round)
{
    pthread_t threads[THREADS];
    struct dlock_handle *locks[THREADS], *held;

    dlt_engine_open(&engine, "race", &(struct dlt_setup){.runs = 1});
    held = hold(round);
    line_up(locks, threads);
    dawdle(round);
    if (round % 3 == 0)
        expect(dlock_unlock(held, NULL) == DLOCK_OK, "unlock", 0);
    dlt_engine_close(&engine);
    line_down(locks, threads);
    dlock_free(held);
}

static void break_against_a_line(unsigned round)
{
    pthread_t threads[THREADS];
    struct dlock_handle *locks[THREADS], *held = hold(round);

    line_up(locks, threads);
    dawdle(round);
    (void)dlock_client_break(engine.client, "a", 1, NULL, NULL);
    dlt_drop(dlock_unlock(held, NULL));
    line_down(locks, threads);
    dlock_free(held);
}

/* ---- one handle, taken and given back by one thread, and looked at by others ---- */

static _Atomic bool taking;

static void *take_and_give(void *arg)
{
    for (unsigned i = 0; i < 10 * ROUNDS; i++) {
        enum dlock_status status = dlock_lock(arg, NULL);

        expect(status == DLOCK_OK, "lock", (int)status);
        dawdle(i);
        status = dlock_unlock(arg, NULL);
        expect(status == DLOCK_OK, "unlock", (int)status);
    }
    taking = false;
    return NULL;
}

static void renew_now_and_then(struct dlock_handle *lock)
{
    for (unsigned i = 0; taking && bad == 0; i++) {
        enum dlock_status status = dlock_renew(lock, 0, NULL);

        expect(status == DLOCK_OK || status == DLOCK_NOT_HELD, "renew", (int)status);
        dawdle(i);
    }
}

/* Held and being acquired at once would put its renewals off for ever. */
static void look_at(struct dlock_handle *lock)
{
    while (taking && bad == 0) {
        (void)pthread_mutex_lock(&engine.client->mutex);
        expect(lock->phase != DL_PHASE_ACQUIRING || dlock_state(lock) == DLOCK_STATE_FREE,
               "held and being acquired", 0);
        (void)pthread_mutex_unlock(&engine.client->mutex);
    }
}

static void beside_an_owner(const char *name, void (*other)(struct dlock_handle *lock))
{
    struct dlock_handle *lock;
    pthread_t thread;

    bad = 0;
    dlt_engine_open(&engine, "race", &(struct dlt_setup){.runs = 1});
    lock = handle(engine.client);
    taking = true;
    if (pthread_create(&thread, NULL, take_and_give, lock) != 0)
        abort();
    other(lock);
    (void)pthread_join(thread, NULL);
    dlock_free(lock);
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "%s", name);
}

/* ---- readers and writers of two clients, and what they guard ---- */

static long value, shadow; /* guarded by the lock: the same, seen by any holder */
static _Atomic uint64_t last_fence;

static void write_once(struct dlock_handle *lock)
{
    uint64_t fence;

    if (dlock_lock(lock, NULL) != DLOCK_OK)
        abort();
    fence = dlock_fence(lock);
    expect(value == shadow, "C1: a writer saw another's work half done", 0);
    expect(fence > last_fence, "C6: a fence that did not rise", 0);
    last_fence = fence;
    value++;
    dawdle((unsigned)value);
    shadow++;
    expect(dlock_unlock(lock, NULL) == DLOCK_OK, "unlock", 0);
}

static void read_once(struct dlock_handle *lock)
{
    if (dlock_rdlock(lock, NULL) != DLOCK_OK)
        abort();
    expect(value == shadow, "C1: a reader saw a writer's work half done", 0);
    expect(dlock_unlock(lock, NULL) == DLOCK_OK, "unlock", 0);
}

static void *read_and_write(void *arg)
{
    struct dlock_handle *lock = handle(arg);

    for (int i = 0; i < ROUNDS / 4; i++) {
        if (i % 4 == 3)
            read_once(lock);
        else
            write_once(lock);
    }
    dlock_free(lock);
    return NULL;
}

static void readers_and_writers(void)
{
    pthread_t threads[THREADS];

    bad = 0;
    dlt_engine_open(&engine, "race", &(struct dlt_setup){.runs = 1});
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, read_and_write, i % 2 == 0 ? engine.client : rival) !=
            0)
            abort();
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "C1, C6: %d threads of two clients write %ld times", THREADS, value);
}

static void race(const char *name, void (*round)(unsigned), bool own_client)
{
    bad = 0;
    if (!own_client)
        dlt_engine_open(&engine, "race", &(struct dlt_setup){.runs = 1});
    for (unsigned i = 0; i < ROUNDS && bad == 0; i++)
        round(i);
    if (!own_client)
        dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "%s, %d times", name, ROUNDS);
}

int main(void)
{
    struct dlt_engine other;

    dlt_engine_open(&other, "race", &(struct dlt_setup){.runs = 1});
    rival = other.client;
    race("cancel against unlock", cancel_against_unlock, false);
    race("free against unlock", free_against_unlock, false);
    race("deadline against unlock", deadline_against_unlock, false);
    race("close against a line of waiters", close_against_a_line, true);
    race("break against a line of waiters", break_against_a_line, false);
    beside_an_owner("C14: a renewal by another thread finds it held, or not", renew_now_and_then);
    beside_an_owner("C14: a grant and the end of its call are seen at once", look_at);
    readers_and_writers();
    dlt_engine_close(&other);
    return dlt_done();
}
