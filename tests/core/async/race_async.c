/* SPDX-License-Identifier: MIT */
/* Tests: core/async/driver.c core/async/acquire_async.c */
/* Tests: core/hold/operation.c */
/*
 * C19: does each operation of dlock_op_start have one DONE, whatever the store, a cancel and a free
 * do meanwhile? In real time; for ThreadSanitizer and AddressSanitizer to watch, hence without
 * Criterion.
 */
#include "drop.h"
#include "engine.h"
#include "hold/run_queue.h"
#include "notices.h"
#include "tap.h"

#include <poll.h>
#include <stdio.h>

#define ROUNDS  200
#define HANDLES 60
#define LONG_MS 60000
#define WAITERS 20

static struct dlt_engine engine;
static int bad; /* answers that nothing explains, in this race */

static void expect(bool good, const char *what, int got)
{
    if (good)
        return;
    bad++;
    printf("# %s: %d\n", what, got);
}

static uint32_t without; /* capabilities that the store does not have */

static void begin(const char *options)
{
    struct dlt_setup setup = {.runs = 1, .options = options};

    if (without != 0)
        setup.plugin = dlock_plugin_memory_limited("async", without);

    bad = 0;
    dlt_engine_open(&engine, "async", &setup);
    memory_hooks_reset("async");
}

static void dawdle(unsigned round)
{
    for (volatile unsigned i = 0; i < round * 7919 % 20011; i++)
        continue;
}

/* false: none came. */
static bool next(struct dlock_notice *notice)
{
    struct pollfd fd = {.fd = dlock_client_fd(engine.client), .events = POLLIN};

    *notice = (struct dlock_notice){.struct_size = sizeof *notice};
    if (poll(&fd, 1, LONG_MS) != 1 || dlt_notice_take(engine.client, notice, NULL) != 1) {
        expect(false, "no notice", 0);
        return false;
    }
    return true;
}

static enum dlock_status done_status(void)
{
    struct dlock_notice notice;

    if (!next(&notice))
        return DLOCK_INTERNAL;
    expect(notice.kind == DLOCK_NOTICE_DONE, "kind", (int)notice.kind);
    return notice.status;
}

static void start(struct dlock_handle *lock, enum dlock_op op, int64_t timeout_ms)
{
    enum dlock_status status = dlock_op_start(lock, op, timeout_ms, NULL);

    expect(status == DLOCK_OK, "start", (int)status);
}

static void cancel_against_grant(void)
{
    struct dlock_handle *held, *waiting;
    unsigned canceled = 0;

    begin(NULL);
    held = dlt_engine_lock(&engine, "a", NULL);
    waiting = dlt_engine_lock(&engine, "a", NULL);
    for (unsigned i = 0; i < ROUNDS && bad == 0; i++) {
        enum dlock_status status = dlock_lock(held, NULL);

        expect(status == DLOCK_OK, "lock", (int)status);
        start(waiting, DLOCK_OP_LOCK, DLOCK_FOREVER);
        start(held, DLOCK_OP_UNLOCK, 0);
        dawdle(i);
        dlock_cancel(waiting);
        for (int n = 0; n < 2; n++) {
            status = done_status();
            expect(status == DLOCK_OK || status == DLOCK_CANCELED, "done", (int)status);
            canceled += status == DLOCK_CANCELED;
        }
        if (dlock_state(waiting) == DLOCK_STATE_HELD)
            dlt_drop(dlock_unlock(waiting, NULL));
        dlock_cancel_reset(waiting);
    }
    printf("# %u of %d were cancelled\n", canceled, ROUNDS);
    dlock_free(held);
    dlock_free(waiting);
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "cancel against grant, %d times", ROUNDS);
}

static void free_amid_operations(void)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};

    begin(NULL);
    for (unsigned i = 0; i < ROUNDS && bad == 0; i++) {
        struct dlock_handle *locks[3];
        enum dlock_status status;

        for (int n = 0; n < 3; n++) {
            locks[n] = dlt_engine_lock(&engine, "a", NULL);
            start(locks[n], DLOCK_OP_LOCK, DLOCK_FOREVER);
        }
        dawdle(i);
        for (int n = 0; n < 3; n++)
            dlock_free(locks[n]);
        expect(dlt_notice_take(engine.client, &notice, NULL) == 0, "a notice is left", 1);
        locks[0] = dlt_engine_lock(&engine, "a", NULL);
        status = dlock_timedlock(locks[0], LONG_MS, NULL);
        expect(status == DLOCK_OK, "lock afterwards", (int)status);
        dlock_free(locks[0]);
    }
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "free amid operations, %d times", ROUNDS);
}

/* One or two operations wait for the store's answer; the others do not one after the other. */
static void silent_store(void)
{
    struct memory_fault silent = {
        .kind = MEMORY_REFUSE, .status = DLOCK_UNKNOWN, .ms = 300, .times = 100000};
    struct dlock_handle *locks[HANDLES];
    unsigned calls;

    begin(NULL);
    for (int i = 0; i < HANDLES; i++) {
        struct dlock_options options = {
            .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .op_timeout_ms = 1000};
        char name[8];

        (void)snprintf(name, sizeof name, "%d", i);
        locks[i] = dlt_engine_lock(&engine, name, &options);
    }
    (void)memory_hooks_fault("async", MEMORY_TRYLOCK, &silent);
    for (int i = 0; i < HANDLES; i++)
        start(locks[i], DLOCK_OP_LOCK, 0);
    for (int i = 0; i < HANDLES && bad == 0; i++) {
        enum dlock_status status = done_status();

        expect(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE, "silent", (int)status);
    }
    calls = dlt_calls(&engine, MEMORY_TRYLOCK);
    expect(calls < HANDLES / 2, "calls of trylock at a silent store", (int)calls);
    memory_hooks_heal("async", MEMORY_TRYLOCK);
    for (int i = 0; i < HANDLES; i++)
        start(locks[i], DLOCK_OP_LOCK, LONG_MS);
    for (int i = 0; i < HANDLES && bad == 0; i++) {
        enum dlock_status status = done_status();

        expect(status == DLOCK_OK, "healed", (int)status);
    }
    for (int i = 0; i < HANDLES; i++)
        dlock_free(locks[i]);
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "C8: a silent store is not asked once for each operation");
}

/* While one exchange lasts, the second thread goes on. */
static void slow_exchange(void)
{
    struct memory_fault slow = {.kind = MEMORY_HELD_REPLY};
    struct dlock_handle *slow_lock, *other;
    struct dlock_notice notice;

    begin(NULL);
    slow_lock = dlt_engine_lock(&engine, "slow", NULL);
    other = dlt_engine_lock(&engine, "other", NULL);
    (void)memory_hooks_fault("async", MEMORY_TRYLOCK, &slow);
    start(slow_lock, DLOCK_OP_LOCK, LONG_MS);
    (void)memory_hooks_await("async", MEMORY_TRYLOCK, 1, LONG_MS);
    start(other, DLOCK_OP_LOCK, LONG_MS);
    if (next(&notice))
        expect(notice.lock == other && notice.status == DLOCK_OK, "first", (int)notice.status);
    memory_hooks_go("async");
    if (next(&notice))
        expect(notice.lock == slow_lock, "second", (int)notice.status);
    dlock_free(slow_lock);
    dlock_free(other);
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "an exchange that lasts stops no other operation");
}

static void doubtful(void)
{
    struct memory_fault refused = {
        .kind = MEMORY_REFUSE, .status = DLOCK_UNAVAILABLE, .times = 100000};
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = 900};
    struct dlock_notice notice;
    struct dlock_handle *lock;

    begin(NULL);
    lock = dlt_engine_lock(&engine, "a", &options);
    (void)memory_hooks_fault("async", MEMORY_RENEW, &refused);
    start(lock, DLOCK_OP_LOCK, LONG_MS);
    expect(done_status() == DLOCK_OK, "lock", 0);
    if (next(&notice))
        expect(notice.kind == DLOCK_NOTICE_DOUBTFUL && notice.lock == lock, "doubtful",
               (int)notice.kind);
    if (next(&notice))
        expect(notice.kind == DLOCK_NOTICE_LOST && notice.reason == DLOCK_REASON_EXPIRED, "lost",
               (int)notice.kind);
    dlock_free(lock);
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "DOUBTFUL once, and LOST after it");
}

/* An operation that a rival keeps waiting, in a store that tells when the rival has unlocked. */
static void told_by_the_store(const char *options, const struct memory_fault *fault,
                              unsigned calls_most)
{
    struct timespec pause = {.tv_nsec = 600 * 1000 * 1000};
    struct dlock_client *rival;
    struct dlock_handle *held, *waiting;
    unsigned calls;
    int64_t unlocked_ms;

    begin(options);
    rival = dlt_engine_rival(&engine);
    held = dlt_rival_hold(rival, "told", DLOCK_EXCLUSIVE);
    waiting = dlt_engine_lock(&engine, "told", NULL);
    if (fault != NULL)
        (void)memory_hooks_fault("async", MEMORY_WAIT_ANY, fault);
    calls = dlt_calls(&engine, MEMORY_TRYLOCK);
    start(waiting, DLOCK_OP_LOCK, LONG_MS);
    (void)nanosleep(&pause, NULL);
    calls = dlt_calls(&engine, MEMORY_TRYLOCK) - calls;
    expect(calls >= 1 && calls <= calls_most, "calls of trylock while it waited", (int)calls);
    expect(dlock_unlock(held, NULL) == DLOCK_OK, "unlock", 0);
    unlocked_ms = dlt_engine_ms(&engine);
    expect(done_status() == DLOCK_OK, "lock", 0);
    expect(dlt_engine_ms(&engine) - unlocked_ms < 15000, "it was told late", 0);
    expect(dlock_unlock(waiting, NULL) == DLOCK_OK, "unlock", 1);
    dlock_free(waiting);
    dlock_free(held);
    dlock_client_close(rival);
    dlt_engine_close(&engine);
}

/* How many operations wait in wait_any. A batch of them is one call of trylock, so that calls do
 * not say it. */
static unsigned watching(void)
{
    struct dlock_client *client = engine.client;
    unsigned count;

    (void)pthread_mutex_lock(&client->mutex);
    count = client->run_queue->watching;
    (void)pthread_mutex_unlock(&client->mutex);
    return count;
}

/* Twenty operations, each for a name of its own, ask once and then wait by one thread. */
static void many_wait_in_the_store(void)
{
    struct timespec pause = {.tv_sec = 2};
    struct dlock_client *rival;
    struct dlock_handle *held[WAITERS], *waiting[WAITERS];
    unsigned asked;

    begin("poll_max=60s&waiter_lease=60s");
    rival = dlt_engine_rival(&engine);
    for (int i = 0; i < WAITERS; i++) {
        const char name[] = {'m', (char)('a' + i), '\0'};

        held[i] = dlt_rival_hold(rival, name, DLOCK_EXCLUSIVE);
        waiting[i] = dlt_engine_lock(&engine, name, NULL);
    }
    for (int i = 0; i < WAITERS; i++)
        start(waiting[i], DLOCK_OP_LOCK, LONG_MS);
    for (int ms = 0; watching() < WAITERS && ms < LONG_MS; ms++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    asked = dlt_calls(&engine, MEMORY_TRYLOCK);
    (void)nanosleep(&pause, NULL);
    asked = dlt_calls(&engine, MEMORY_TRYLOCK) - asked;
    expect(asked == 0, "calls of trylock while twenty waited", (int)asked);
    for (int i = 0; i < WAITERS; i++)
        expect(dlock_unlock(held[i], NULL) == DLOCK_OK, "unlock", i);
    for (int i = 0; i < WAITERS; i++)
        expect(done_status() == DLOCK_OK, "lock", i);
    for (int i = 0; i < WAITERS; i++) {
        dlock_free(waiting[i]);
        dlock_free(held[i]);
    }
    dlock_client_close(rival);
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "wait_any: %d operations that wait make no request in 2 s", WAITERS);
}

static void waits_in_the_store(void)
{
    static const struct memory_fault refused = {
        .kind = MEMORY_REFUSE, .status = DLOCK_UNAVAILABLE, .times = 3};

    told_by_the_store("poll_max=30s&waiter_lease=60s", NULL, 1);
    (void)dlt_ok(bad == 0, "wait_any: a waiting operation does not poll, and is told");
    told_by_the_store("poll_max=100ms&waiter_lease=60s", &refused, 1000);
    (void)dlt_ok(bad == 0, "wait_any: while the store cannot tell, an operation polls");
    without = DLOCK_CAP_CONCURRENT;
    told_by_the_store("poll_max=30s&waiter_lease=60s", NULL, 1);
    (void)dlt_ok(bad == 0, "wait_any: in a session that is lent, too");
    told_by_the_store("connections=2&poll_max=30s&waiter_lease=60s", NULL, 1);
    (void)dlt_ok(bad == 0, "wait_any: two connections are enough");
    without = 0;
    many_wait_in_the_store();
}

int main(void)
{
    cancel_against_grant();
    free_amid_operations();
    silent_store();
    slow_exchange();
    doubtful();
    waits_in_the_store();
    return dlt_done();
}
