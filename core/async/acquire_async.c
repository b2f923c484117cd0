/* SPDX-License-Identifier: MIT */
#include "async/acquire_async.h"
#include "acquire/acquire_steps.h"
#include "acquire/local_waiter.h"
#include "hold/held.h"
#include "sys/backoff.h"
#include "sys/error.h"

#define SESSION_FIRST_NS (2 * DL_NS_PER_MS)
#define SESSION_MOST_NS  (500 * DL_NS_PER_MS)

/* An attempt that has used a thread for this time lets others go first. */
#define RUN_MOST_NS (100 * DL_NS_PER_MS)

enum dlock_status dl_acquire_async_begin_locked(struct dl_acquire_async *async,
                                                struct dlock_handle *lock, enum dlock_mode mode,
                                                int64_t timeout_ms, uint32_t waiter,
                                                struct dlock_error *err)
{
    struct dl_acquire *a = &async->a;
    enum dlock_status status;

    *async =
        (struct dl_acquire_async){.a = {.lock = lock, .err = err, .async = true, .waiter = waiter}};
    a->waiting.lock = lock;
    async->wait = timeout_ms != 0;
    async->until_ns = dl_clock_after_ms(dl_acquire_steps_now(a), timeout_ms);
    status = dl_acquire_steps_begin_locked(a, mode);
    if (status != DLOCK_OK)
        return status;
    async->status = dl_local_waiter_join_locked(lock, mode, async->wait);
    return DLOCK_OK;
}

/* false: not admitted yet. */
static bool start(struct dl_acquire_async *async)
{
    struct dl_acquire *a = &async->a;
    struct dlock_handle *lock = a->lock;
    bool over = true;

    (void)pthread_mutex_lock(&a->lock->client->mutex);
    (void)dl_acquire_steps_now(a);
    if (async->status == DLOCK_OK && async->wait)
        over = dl_local_waiter_admission_locked(lock, async->until_ns, a->now_ns, &async->status);
    if (over)
        dl_acquire_steps_admitted_locked(a, async->wait);
    (void)pthread_mutex_unlock(&a->lock->client->mutex);
    if (!over)
        return false;
    async->started = true;
    if (dlock_status_class((int)async->status) == DLOCK_CLASS_BACKEND)
        (void)dl_error(a->err, async->status,
                       "the store did not answer the thread before this one");
    if (async->status == DLOCK_OK)
        dl_acquire_steps_start(a, async->wait, async->until_ns);
    return true;
}

static void wait_begin(struct dl_acquire_async *async, enum dl_acquire_async_wait waits, bool held,
                       int64_t until_ns)
{
    struct dl_acquire *a = &async->a;

    async->waits = (uint8_t)waits;
    async->held = held;
    async->until_ns = until_ns;
    (void)pthread_mutex_lock(&a->lock->client->mutex);
    dl_local_waiter_park_begin_locked(a->lock, held, !a->attempt.uncertain);
    (void)pthread_mutex_unlock(&a->lock->client->mutex);
}

/* A grant that came meanwhile is found by the next try. */
static void watched(struct dl_acquire *a, enum dlock_status status)
{
    const struct dlock_grant none = {0};

    dl_acquire_fsm_watched(&a->attempt, a->now_ns, status, &none,
                           dl_client_random(a->lock->client));
    dl_acquire_steps_entry_set(a, a->attempt.has_entry && a->attempt.step != DL_STEP_DONE);
}

/* Whether the wait is over; the attempt goes on. */
static bool wait_over(struct dl_acquire_async *async)
{
    struct dl_acquire *a = &async->a;
    enum dlock_status status;
    bool over;

    (void)pthread_mutex_lock(&a->lock->client->mutex);
    over = dl_local_waiter_park_over_locked(a->lock, async->until_ns, async->held, &status);
    if (!over && async->waits == DL_ACQUIRE_ASYNC_WATCHES && async->news) {
        a->lock->waiting->ready = false;
        status = DLOCK_BUSY;
        over = true;
    }
    (void)pthread_mutex_unlock(&a->lock->client->mutex);
    if (!over)
        return false;
    (void)dl_acquire_steps_now(a);
    if (async->waits == DL_ACQUIRE_ASYNC_SLEEPS && status != DLOCK_OK)
        dl_acquire_fsm_slept(&a->attempt, a->now_ns);
    else if (async->waits == DL_ACQUIRE_ASYNC_WATCHES && status != DLOCK_OK)
        watched(a, status);
    async->waits = DL_ACQUIRE_ASYNC_RUNS;
    return true;
}

static bool talks(const struct dl_acquire *a)
{
    switch (a->attempt.step) {
    case DL_STEP_CONNECT:
    case DL_STEP_TRY:
    case DL_STEP_REFRESH:
    case DL_STEP_RETURN:
        return !a->waits_for_handoff;
    default:
        return false;
    }
}

/* A thread of the driver must not wait for a session that an operation behind this one gives back.
 * true: the attempt waits. */
static bool session_awaited(struct dl_acquire_async *async)
{
    struct dl_acquire *a = &async->a;
    enum dl_use use =
        dl_client_has(a->lock->client, DLOCK_CAP_SESSION) ? DL_USE_LEASE : DL_USE_ACQUIRE;
    int64_t now_ns = dl_acquire_steps_now(a);

    if ((a->attempt.step != DL_STEP_TRY && a->attempt.step != DL_STEP_REFRESH) ||
        a->lock->claim->lease_session != NULL || now_ns >= a->attempt.until_ns ||
        !dl_session_pool_is_spent(&a->lock->client->pool, use)) {
        async->polls = 0;
        return false;
    }
    wait_begin(
        async, DL_ACQUIRE_ASYNC_SESSION, false,
        dl_earlier(a->attempt.until_ns,
                   now_ns + dl_backoff_delay(async->polls++, SESSION_FIRST_NS, SESSION_MOST_NS,
                                             dl_client_random(a->lock->client))));
    return true;
}

/* What the store said before the request leaves is void [ANY-2]. */
static void news_clear(struct dl_acquire_async *async)
{
    if (async->a.waiter == 0)
        return;
    (void)pthread_mutex_lock(&async->a.lock->client->mutex);
    async->news = false;
    (void)pthread_mutex_unlock(&async->a.lock->client->mutex);
}

/* *apart: an exchange is left to the caller. */
static void step(struct dl_acquire_async *async, bool *stalled, bool *apart)
{
    struct dl_acquire *a = &async->a;
    bool is_talk;

    if (dl_acquire_steps_recheck(a))
        return;
    is_talk = talks(a);
    if (is_talk && *stalled) {
        *stalled = false;
        dl_acquire_steps_skip(a);
        return;
    }
    if (is_talk && session_awaited(async))
        return;
    if (is_talk)
        news_clear(async);
    if (is_talk && async->apart) {
        *apart = true;
        return;
    }
    if (dl_acquire_steps_shared(a))
        return;
    if (a->waits_for_handoff) {
        a->waits_for_handoff = false;
        wait_begin(async, DL_ACQUIRE_ASYNC_HANDOFF, true,
                   dl_earlier(a->now_ns + DL_HANDOFF_WAIT_NS, a->attempt.deadline_ns));
    } else if (a->attempt.step == DL_STEP_SLEEP || a->attempt.step == DL_STEP_WATCH) {
        wait_begin(async,
                   a->attempt.step == DL_STEP_SLEEP ? DL_ACQUIRE_ASYNC_SLEEPS
                                                    : DL_ACQUIRE_ASYNC_WATCHES,
                   dl_local_waiter_held_here(a->lock), a->attempt.until_ns);
    }
}

/* true: the attempt tries again after the operations that are ready (C19). */
static bool gives_way(struct dl_acquire_async *async, int64_t begun_ns)
{
    const struct dl_acquire *a = &async->a;

    if (async->waits != DL_ACQUIRE_ASYNC_RUNS || a->attempt.step == DL_STEP_RETURN || !talks(a) ||
        a->now_ns - begun_ns < RUN_MOST_NS)
        return false;
    async->until_ns = a->now_ns;
    return true;
}

static enum dl_acquire_async_next talk_of(const struct dl_acquire *a)
{
    return a->attempt.step == DL_STEP_TRY || a->attempt.step == DL_STEP_REFRESH
               ? DL_ACQUIRE_ASYNC_TRIES
               : DL_ACQUIRE_ASYNC_TALKS;
}

static enum dl_acquire_async_next run(struct dl_acquire_async *async, bool stalled)
{
    struct dl_acquire *a = &async->a;
    int64_t begun_ns = dl_acquire_steps_now(a);
    bool apart = false;

    do {
        while (a->attempt.step != DL_STEP_DONE) {
            if (async->waits != DL_ACQUIRE_ASYNC_RUNS && !wait_over(async))
                return DL_ACQUIRE_ASYNC_WAITS;
            step(async, &stalled, &apart);
            if (apart)
                return talk_of(a);
            if (gives_way(async, begun_ns))
                return DL_ACQUIRE_ASYNC_WAITS;
        }
        if (async->apart &&
            dl_acquire_lengthen_is_due(a->lock, &a->attempt, a->granted.lease_ms, a->now_ns))
            return DL_ACQUIRE_ASYNC_TALKS;
    } while (dl_acquire_lengthen(a->lock, &a->attempt, &a->granted.lease_ms, &a->now_ns, a->err));
    return DL_ACQUIRE_ASYNC_ENDED;
}

static enum dl_acquire_async_next go_on(struct dl_acquire_async *async, bool stalled,
                                        enum dlock_status *status, struct dlock_error *err)
{
    async->a.err = err;
    if (!async->started && !start(async))
        return DL_ACQUIRE_ASYNC_WAITS;
    *status = async->status;
    if (*status == DLOCK_OK) {
        enum dl_acquire_async_next next = run(async, stalled);

        if (next != DL_ACQUIRE_ASYNC_ENDED)
            return next;
        *status = async->a.attempt.result;
    }
    dl_acquire_steps_conclude(&async->a, *status);
    return DL_ACQUIRE_ASYNC_ENDED;
}

bool dl_acquire_async_run(struct dl_acquire_async *async, bool stalled, enum dlock_status *status,
                          struct dlock_error *err)
{
    async->apart = false;
    return go_on(async, stalled, status, err) == DL_ACQUIRE_ASYNC_ENDED;
}

enum dl_acquire_async_next dl_acquire_async_prepare(struct dl_acquire_async *async,
                                                    enum dlock_status *status,
                                                    struct dlock_error *err)
{
    async->apart = true;
    return go_on(async, false, status, err);
}
