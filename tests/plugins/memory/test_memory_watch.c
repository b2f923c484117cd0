/* SPDX-License-Identifier: MIT */
/* Tests: plugins/memory/watch.c plugins/memory/store.c */
/* Does a waiter of memory:// sleep, and wake when it must? With threads, on the real clock; each
 * wait that must end by itself is bounded by a deadline far away. */
#include "memory_fixture.h"

#include <pthread.h>
#include <time.h>

static struct fixture f;
static struct dlt_request a, b;

static void set_up(void)
{
    fixture_init(&f, dlock_plugin_memory_hooked(), 1);
    dlt_request_init(&a, &f.host, "job", 'a', 60000);
    dlt_request_init(&b, &f.host, "job", 'b', 60000);
}

static void tear_down(void)
{
    f.ops->forget(f.self, &b.req);
    fixture_close(&f);
}

TestSuite(watch, .init = set_up, .fini = tear_down);

static enum dlock_status watch(struct dlt_request *r, int64_t timeout_ms)
{
    struct dlock_grant grant = {0};
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_INTERNAL;

    r->req.deadline_ns = dlt_host_in(&f.host, timeout_ms);
    status = f.ops->watch(f.self, &r->req, &grant, &err);
    cr_assert_eq(err.message[0] == '\0', status == DLOCK_BUSY || status == DLOCK_OK);
    return status;
}

static void *watcher(void *arg)
{
    return (void *)(intptr_t)watch(arg, 30000);
}

struct watching {
    pthread_t thread;
    int64_t start_ns;
};

static struct watching watch_start(void)
{
    struct watching w = {.start_ns = dlt_host_now(&f.host)};

    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY);
    cr_assert_eq(pthread_create(&w.thread, NULL, watcher, &b), 0);
    cr_assert_eq(memory_hooks_await("x", MEMORY_WATCH, 1, 10000), 0);
    return w;
}

static enum dlock_status watch_join(struct watching *w)
{
    void *result = NULL;

    cr_assert_eq(pthread_join(w->thread, &result), 0);
    cr_assert(dlt_host_within(&f.host, w->start_ns, 20000), "nobody woke it: %s",
              dlt_within_text());
    return (enum dlock_status)(intptr_t)result;
}

/* The call was entered; give it a moment to be asleep. Either order has to work. */
static void moment(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20 * DLT_NS_PER_MS}, NULL);
}

Test(watch, WAT_1_expiry_wakes)
{
    a.req.ttl_ms = 60;
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    cr_assert_eq(watch(&b, 10000), DLOCK_BUSY);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_OK);
}

Test(watch, WAT_1_expiry_on_the_clock_of_the_store_wakes)
{
    struct watching w;

    memory_hooks_clock_set("x", 5);
    w = watch_start();
    moment();
    memory_hooks_clock_advance("x", 60000);
    cr_assert_eq(watch_join(&w), DLOCK_BUSY);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_OK);
    memory_hooks_reset("x");
}

Test(watch, WAT_3_a_waiter_sleeps_on_when_another_was_quicker)
{
    struct watching w = watch_start();
    struct dlt_request c;

    moment();
    dlt_request_init(&c, &f.host, "job", 'c', 60000);
    for (int i = 0; i < 50; i++) {
        struct dlt_request *holder = i % 2 == 0 ? &a : &c, *next = i % 2 == 0 ? &c : &a;

        cr_assert_eq(fixture_unlock(&f, holder), DLOCK_OK);
        if (fixture_try(&f, next) != DLOCK_OK)
            break;
    }
    f.ops->interrupt(f.self, &b.req);
    (void)watch_join(&w); /* BUSY if it saw a gap, CANCELED if not: both are right */
}

static bool count_waiters(void *arg, const struct dlock_holder *lease)
{
    *(uint32_t *)arg = lease->waiters;
    return 0;
}

Test(watch, inspect_counts_the_sleepers)
{
    struct watching w = watch_start();
    uint32_t waiters = 0;

    for (int i = 0; i < 500 && waiters == 0; i++) {
        moment();
        cr_assert_eq(f.ops->inspect(f.self, a.req.name, a.req.name_len, a.req.deadline_ns,
                                    count_waiters, &waiters, &f.err),
                     DLOCK_OK);
    }
    cr_assert_eq(waiters, 1);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    cr_assert_eq(watch_join(&w), DLOCK_BUSY);
}
