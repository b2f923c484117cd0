/* SPDX-License-Identifier: MIT */
/* Tests: plugins/memory/store.c plugins/memory/queue.c */
/* Does a grant of memory:// wake the one that it is for, and that one alone? With threads, on the
 * real clock; no place and no deadline ends by itself here, unless a test is about that. */
#include "memory_fixture.h"

#include <pthread.h>
#include <string.h>

static _Atomic unsigned signals, sleeps;

/* The linker puts these in the place of the plugin's calls. */
int __real_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    signals++;
    return __real_pthread_cond_signal(cond);
}

/* Who is counted holds the mutex of the store: whoever changes the store later finds it asleep. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    sleeps++;
    return __real_pthread_cond_timedwait(cond, mutex, until);
}

#define WAITERS 10

struct waiting {
    struct dlt_request request;
    pthread_t thread;
    struct dlock_grant grant;
};

static struct fixture f;
static struct dlt_request holder;
static struct waiting waiting[WAITERS];

static void set_up(void)
{
    fixture_waiter_lease_ms = 60000;
    fixture_init(&f, dlock_plugin_memory(), 1);
    dlt_request_init(&holder, &f.host, "job", 'h', 60000);
}

static void tear_down(void)
{
    fixture_close(&f);
}

TestSuite(grant, .init = set_up, .fini = tear_down);

static void *watcher(void *arg)
{
    struct waiting *w = arg;
    struct dlock_error err = DLOCK_ERROR_INIT;

    w->request.req.deadline_ns = dlt_host_in(&f.host, 50000);
    return (void *)(intptr_t)f.ops->watch(f.self, &w->request.req, &w->grant, &err);
}

/* Queued in their order and asleep. */
static void line_up(int count, uint32_t mode)
{
    for (int i = 0; i < count; i++) {
        struct waiting *w = &waiting[i];
        unsigned before = sleeps;

        dlt_request_init(&w->request, &f.host, "job", (unsigned char)i, 60000);
        w->request.req.mode = mode;
        cr_assert_eq(fixture_enqueue(&f, &w->request), DLOCK_BUSY);
        cr_assert_eq(f.grant.queue_position, (unsigned)i);
        cr_assert_eq(pthread_create(&w->thread, NULL, watcher, w), 0);
        while (sleeps == before)
            (void)sched_yield();
    }
}

static enum dlock_status woken(int i)
{
    void *result = NULL;

    cr_assert_eq(pthread_join(waiting[i].thread, &result), 0);
    return (enum dlock_status)(intptr_t)result;
}

static enum dlock_status ended(int i)
{
    enum dlock_status status = woken(i);

    f.ops->forget(f.self, &waiting[i].request.req);
    return status;
}

Test(grant, WAT_1_unlock_wakes_the_next_one_alone)
{
    cr_assert_eq(fixture_try(&f, &holder), DLOCK_OK);
    line_up(WAITERS, DLOCK_EXCLUSIVE);
    signals = 0;
    cr_assert_eq(fixture_unlock(&f, &holder), DLOCK_OK);
    for (unsigned i = 0; i < WAITERS; i++) {
        cr_assert_eq(woken((int)i), DLOCK_OK);
        cr_assert_eq(signals, i + 1);
        cr_assert_eq(waiting[i].grant.waiters, WAITERS - 1 - i);
        cr_assert_eq(fixture_unlock(&f, &waiting[i].request), DLOCK_OK);
    }
}

Test(grant, WAT_1_unlock_wakes_all_readers_at_the_head)
{
    cr_assert_eq(fixture_try(&f, &holder), DLOCK_OK);
    line_up(WAITERS, DLOCK_SHARED);
    signals = 0;
    cr_assert_eq(fixture_unlock(&f, &holder), DLOCK_OK);
    cr_assert_eq(signals, WAITERS);
    for (int i = 0; i < WAITERS; i++)
        cr_assert_eq(ended(i), DLOCK_OK);
}

Test(grant, DEQ_1_leave_of_a_granted_token_wakes_the_next)
{
    cr_assert_eq(fixture_try(&f, &holder), DLOCK_OK);
    line_up(2, DLOCK_EXCLUSIVE);
    cr_assert_eq(fixture_unlock(&f, &holder), DLOCK_OK);
    cr_assert_eq(ended(0), DLOCK_OK);
    cr_assert_eq(fixture_leave(&f, &waiting[0].request), DLOCK_OK);
    cr_assert_eq(ended(1), DLOCK_OK);
}

Test(grant, WAT_1_the_head_wakes_when_the_holder_expires)
{
    holder.req.ttl_ms = 200;
    cr_assert_eq(fixture_try(&f, &holder), DLOCK_OK);
    line_up(1, DLOCK_EXCLUSIVE);
    cr_assert_eq(ended(0), DLOCK_BUSY);
    cr_assert_eq(fixture_refresh(&f, &waiting[0].request), DLOCK_OK);
}

Test(grant, INT_1_interrupt_ends_a_watch_and_leave_the_place)
{
    cr_assert_eq(fixture_try(&f, &holder), DLOCK_OK);
    line_up(2, DLOCK_EXCLUSIVE);
    f.ops->interrupt(f.self, &waiting[0].request.req);
    cr_assert_eq(ended(0), DLOCK_CANCELED);
    cr_assert_eq(fixture_leave(&f, &waiting[0].request), DLOCK_OK);
    cr_assert_eq(fixture_unlock(&f, &holder), DLOCK_OK);
    cr_assert_eq(ended(1), DLOCK_OK);
}

#define RACERS 8
#define TURNS  200

static _Atomic int readers, writers, overlaps;
static _Atomic uint32_t attempts;

/* What the lock is to exclude. */
static void visit(uint32_t mode)
{
    _Atomic int *mine = mode == DLOCK_SHARED ? &readers : &writers;

    (*mine)++;
    (void)sched_yield();
    if (writers > 1 || (writers == 1 && readers > 0))
        overlaps++;
    (*mine)--;
}

/* OK, BUSY with a place, or what must not be. */
static enum dlock_status attempt(struct dlt_request *r)
{
    struct dlock_grant grant = {0};
    struct dlock_error err = DLOCK_ERROR_INIT;
    uint32_t flags = DLOCK_REQ_ENQUEUE;
    enum dlock_status status = DLOCK_INTERNAL;

    for (;;) {
        r->req.flags = flags;
        r->req.deadline_ns = dlt_host_in(&f.host, 50000);
        status = f.ops->trylock(f.self, &r->req, &grant, &err);
        if (status != DLOCK_BUSY || r->req.token[4] % 4 == 0)
            return status;
        if (grant.flags != DLOCK_GRANT_QUEUED)
            return DLOCK_LOST;
        status = f.ops->watch(f.self, &r->req, &grant, &err);
        if (status != DLOCK_BUSY)
            return status;
        flags = DLOCK_REQ_REFRESH;
    }
}

/* Writers and readers; some give up as soon as they are queued, some when they are granted. */
static void *racer(void *arg)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    int failed = 0;

    for (uint32_t turn = 0; turn < TURNS && !failed; turn++) {
        struct dlt_request r;
        uint32_t number = attempts++;
        enum dlock_status status = DLOCK_INTERNAL;

        dlt_request_init(&r, &f.host, "race", 0, 60000);
        memcpy(r.req.token, &number, sizeof number);
        r.req.token[4] = (unsigned char)turn;
        r.req.mode = (turn + (uint32_t)(intptr_t)arg) % 3 == 0 ? DLOCK_EXCLUSIVE : DLOCK_SHARED;
        status = attempt(&r);
        if (status == DLOCK_OK && turn % 5 != 0) {
            visit(r.req.mode);
            failed = f.ops->unlock(f.self, &r.req, &err) != DLOCK_OK;
        } else {
            failed = (status != DLOCK_OK && status != DLOCK_BUSY) ||
                     f.ops->dequeue(f.self, &r.req, &err) != DLOCK_OK;
            f.ops->forget(f.self, &r.req);
        }
    }
    return failed ? arg : NULL;
}

Test(grant, TRY_1_of_many_threads_the_right_ones_are_inside_and_none_is_forgotten)
{
    pthread_t threads[RACERS];

    for (intptr_t i = 0; i < RACERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, racer, (void *)(i + 1)), 0);
    for (int i = 0; i < RACERS; i++) {
        void *unhappy = NULL;

        cr_assert_eq(pthread_join(threads[i], &unhappy), 0);
        cr_expect_null(unhappy, "somebody was forgotten");
    }
    cr_assert_eq(overlaps, 0);
}
