/* SPDX-License-Identifier: MIT */
/* Do threads of one process, with a session each, exclude each other, wake each other, and get out
 * of a sleep by interrupt? Plain TAP, so that it runs under ThreadSanitizer too. */
#include "store_kit.h"
#include "tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define RACERS 4
#define TURNS  150

static char directory[64], path[64];

struct racer {
    struct dlt_store store;
    pthread_t thread;
    enum dlock_status status;
    unsigned char number;
    int queues;
};

/* What the lock protects. Atomic only so that the race detector looks at the lock alone. */
static _Atomic int counter;
static _Atomic uint64_t last_fence;

static enum dlock_status try_again(struct racer *racer, struct dlt_request *r, int again)
{
    r->req.flags = !racer->queues ? 0u : again ? DLOCK_REQ_REFRESH : DLOCK_REQ_ENQUEUE;
    r->req.deadline_ns = dlt_host_in(&racer->store.host, 20000);
    return dlt_store_try(&racer->store, r);
}

static enum dlock_status take(struct racer *racer, struct dlt_request *r)
{
    enum dlock_status status = try_again(racer, r, 0);

    while (status == DLOCK_BUSY) {
        status = dlt_store_watch(&racer->store, r, 1000);
        if (status != DLOCK_OK)
            status = try_again(racer, r, 1);
    }
    return status;
}

/* Unlocked read and write: only the lock keeps updates. */
static int protected_step(uint64_t fence)
{
    int value = atomic_load(&counter);
    uint64_t last = atomic_load(&last_fence);

    atomic_store(&last_fence, fence);
    atomic_store(&counter, value + 1);
    return fence > last;
}

static void *race(void *arg)
{
    struct racer *racer = arg;

    racer->status = dlt_store_start(&racer->store, path);
    for (int i = 0; i < TURNS && racer->status == DLOCK_OK; i++) {
        struct dlt_request r;

        dlt_store_request(&racer->store, &r, "job", racer->number, 30000);
        r.req.deadline_ns = dlt_host_in(&racer->store.host, 20000);
        racer->status = take(racer, &r);
        if (racer->status == DLOCK_OK && !protected_step(racer->store.grant.fence))
            racer->status = DLOCK_INTERNAL;
        if (racer->status == DLOCK_OK)
            racer->status = dlt_store_unlock(&racer->store, &r);
    }
    return NULL;
}

/* So many of them queue. */
static void test_race(int queueing)
{
    static struct racer racers[RACERS];
    int good = 1;

    counter = 0;
    for (int i = 0; i < RACERS; i++) {
        racers[i].number = (unsigned char)('a' + i);
        racers[i].queues = queueing > i;
        if (pthread_create(&racers[i].thread, NULL, race, &racers[i]) != 0)
            abort();
    }
    for (int i = 0; i < RACERS; i++) {
        (void)pthread_join(racers[i].thread, NULL);
        good = good && racers[i].status == DLOCK_OK;
        dlt_store_close(&racers[i].store);
    }
    (void)dlt_ok(good, "C1 C6 every turn of every thread is OK, and fences rise; %d queue",
                 queueing);
    (void)dlt_ok(counter == RACERS * TURNS, "C1 no update is lost; %d queue", queueing);
}

struct sleeper {
    struct dlt_store store;
    struct dlt_request request;
    pthread_t thread;
    enum dlock_status status;
    bool again; /* whatever woke it but an interrupt */
};

static void *sleep_on(void *arg)
{
    struct sleeper *sleeper = arg;

    do /* [WAT-3] it may wake for no reason */
        sleeper->status = dlt_store_watch(&sleeper->store, &sleeper->request, 30000);
    while (sleeper->status == DLOCK_BUSY && sleeper->again);
    return NULL;
}

static void sleeper_start(struct sleeper *sleeper, unsigned char owner)
{
    (void)dlt_store_start(&sleeper->store, path);
    dlt_store_request(&sleeper->store, &sleeper->request, "job", owner, 30000);
    (void)dlt_ok(dlt_store_try(&sleeper->store, &sleeper->request) == DLOCK_BUSY, "busy first");
    if (pthread_create(&sleeper->thread, NULL, sleep_on, sleeper) != 0)
        abort();
}

/* How it ended, and whether that took less than its deadline. */
static enum dlock_status sleeper_join(struct sleeper *sleeper, int64_t start_ns)
{
    int64_t ms = 0;

    (void)pthread_join(sleeper->thread, NULL);
    ms = (dlt_host_now(&sleeper->store.host) - start_ns) / DLT_NS_PER_MS;
    dlt_store_close(&sleeper->store);
    return ms < 20000 ? sleeper->status : DLOCK_TIMEOUT;
}

static void test_sleep(void)
{
    static struct sleeper one, two, three;
    static struct dlt_store holder;
    struct dlt_request r;
    int64_t start = 0;

    (void)dlt_store_start(&holder, path);
    dlt_store_request(&holder, &r, "job", 'h', 60000);
    (void)dlt_ok(dlt_store_try(&holder, &r) == DLOCK_OK, "held");
    start = dlt_host_now(&holder.host);
    sleeper_start(&one, '1');
    dlt_sleep_ms(20);
    holder.ops->interrupt(one.store.self, &one.request.req);
    (void)dlt_ok(sleeper_join(&one, start) == DLOCK_CANCELED, "INT_1 interrupt ends a sleep");
    sleeper_start(&two, '2');
    sleeper_start(&three, '3');
    dlt_sleep_ms(50);
    (void)dlt_ok(dlt_store_unlock(&holder, &r) == DLOCK_OK, "released");
    (void)dlt_ok(sleeper_join(&two, start) == DLOCK_BUSY, "WAT_1 a release ends a sleep");
    (void)dlt_ok(sleeper_join(&three, start) == DLOCK_BUSY, "WAT_1 and every other");
    dlt_store_close(&holder);
}

/* An interrupt that comes at any moment of a watch's life is not lost. */
static void test_interrupt_at_any_moment(uint32_t flags)
{
    static struct dlt_store holder;
    struct dlt_request r;
    int canceled = 0;
    int64_t start = 0;

    (void)dlt_store_start(&holder, path);
    dlt_store_request(&holder, &r, "job", 'h', 60000);
    (void)dlt_store_try(&holder, &r);
    start = dlt_host_now(&holder.host);
    for (int i = 0; i < 200; i++) {
        static struct sleeper sleeper;
        volatile int spin = i * 50;

        sleeper = (struct sleeper){.again = true};
        (void)dlt_store_start(&sleeper.store, path);
        dlt_store_request(&sleeper.store, &sleeper.request, "job", 's', 30000);
        sleeper.request.req.flags = flags;
        (void)dlt_store_try(&sleeper.store, &sleeper.request);
        if (pthread_create(&sleeper.thread, NULL, sleep_on, &sleeper) != 0)
            abort();
        while (spin > 0)
            spin = spin - 1;
        holder.ops->interrupt(sleeper.store.self, &sleeper.request.req);
        canceled += sleeper_join(&sleeper, start) == DLOCK_CANCELED;
    }
    (void)dlt_ok(canceled == 200, "INT_2 %d of 200 interrupts were noticed", canceled);
    (void)dlt_store_unlock(&holder, &r);
    dlt_store_close(&holder);
}

int main(void)
{
    dlt_store_directory(directory, path);
    test_race(0);
    test_race(RACERS);
    test_race(RACERS / 2);
    test_sleep();
    test_interrupt_at_any_moment(0);
    test_interrupt_at_any_moment(DLOCK_REQ_ENQUEUE);
    dlt_store_remove(directory);
    return dlt_done();
}
