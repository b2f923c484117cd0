/* SPDX-License-Identifier: MIT */
#include "session/session_pool.h"
#include "session/dispatch.h"
#include "sys/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After the store has refused a connection, the pool asks for another one after this time. */
#define REFUSED_NS DL_NS_PER_S

/* A session that was idle for this time is closed, unless it is the last one. */
#define IDLE_NS (60 * DL_NS_PER_S)

enum dlock_status dl_session_pool_init(struct dl_pool *pool, const struct dl_plugin *plugin,
                                       const struct dlock_target *target, struct dl_host *host,
                                       int64_t connect_timeout_ms, int connections,
                                       struct dlock_error *err)
{
    *pool = (struct dl_pool){
        .plugin = plugin,
        .target = target,
        .host = host,
        .connect_timeout_ms = connect_timeout_ms,
        .limit = (unsigned)connections,
        .info = {.caps = plugin->caps},
    };
    if (pthread_mutex_init(&pool->mutex, NULL) != 0)
        return dl_error(err, DLOCK_NOMEM, "no memory for a mutex");
    if (dl_deadline_cond_init(&pool->connected_changed) != 0) {
        (void)pthread_mutex_destroy(&pool->mutex);
        return dl_error(err, DLOCK_NOMEM, "no memory for a condition variable");
    }
    return DLOCK_OK;
}

static void sessions_close(struct dl_pool *pool, struct dl_session *session, bool forked)
{
    while (session != NULL) {
        struct dl_session *next = session->next;

        dl_dispatch_close(pool->plugin, session->self, forked);
        free(session);
        session = next;
    }
}

void dl_session_pool_fini(struct dl_pool *pool, bool forked)
{
    sessions_close(pool, pool->idle, forked);
    sessions_close(pool, pool->shared, forked);
    sessions_close(pool, pool->begun, forked);
    if (forked)
        return;
    (void)pthread_cond_destroy(&pool->connected_changed);
    (void)pthread_mutex_destroy(&pool->mutex);
}

void dl_session_pool_close_after_fork(struct dl_pool *pool, struct dl_session *session)
{
    sessions_close(pool, session, true);
}

/* One that is begun, or a new one. NULL: no memory. */
static struct dl_session *session_begin(struct dl_pool *pool)
{
    const size_t size =
        (sizeof(struct dl_session) + pool->plugin->ops.session_size + 15) & ~(size_t)15;
    struct dl_session *session;

    (void)pthread_mutex_lock(&pool->mutex);
    session = pool->begun;
    pool->begun = NULL;
    (void)pthread_mutex_unlock(&pool->mutex);
    if (session != NULL)
        return session;
    session = aligned_alloc(16, size);
    if (session != NULL)
        memset(session, 0, size);
    return session;
}

/* After an open that failed. */
static void session_abandon(struct dl_pool *pool, struct dl_session *session, bool can_resume)
{
    (void)pthread_mutex_lock(&pool->mutex);
    if (can_resume && pool->begun == NULL) {
        pool->begun = session;
        session = NULL;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    sessions_close(pool, session, false);
}

static enum dlock_status session_open(struct dl_pool *pool, int64_t deadline_ns,
                                      struct dl_session **out, struct dlock_error *err)
{
    struct dlock_session_info info = {0};
    int64_t now_ns = dl_clock_now(&pool->host->clock);
    int64_t connect_by_ns = dl_clock_after_ms(now_ns, pool->connect_timeout_ms);
    struct dl_session *session;
    enum dlock_status status;

    session = session_begin(pool);
    if (session == NULL)
        return dl_error(err, DLOCK_NOMEM, "no memory for a session");
    status =
        dl_dispatch_open(pool->plugin, session->self, &pool->host->table, pool->target,
                         connect_by_ns < deadline_ns ? connect_by_ns : deadline_ns, &info, err);
    (void)atomic_fetch_add(status == DLOCK_OK ? &pool->opened : &pool->failed, 1);
    if (status != DLOCK_OK) {
        session_abandon(pool, session, info.can_resume);
        return status;
    }
    session->caps = info.caps;
    if (pool->host->session_made != NULL)
        pool->host->session_made(pool->host->session_arg);
    (void)pthread_mutex_lock(&pool->mutex);
    pool->info = info;
    dl_ttl_grid_narrow(&pool->ttls, &info); /* before `connected` says that it is known */
    if (!atomic_load(&pool->connected)) {
        pool->first = info;
        atomic_store(&pool->connected, true);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    *out = session;
    return DLOCK_OK;
}

static struct dl_session *idle_pop_locked(struct dl_pool *pool)
{
    struct dl_session *session = pool->idle;

    if (session != NULL) {
        pool->idle = session->next;
        session->next = NULL;
    }
    return session;
}

/* Whether the store refused a connection a moment ago and must not be asked again yet. If no
 * session is lent, there is nothing to wait for, and the store may be asked. */
static bool refused_locked(const struct dl_pool *pool)
{
    return pool->refused_until_ns != 0 && pool->lent + pool->opening > 0 &&
           dl_clock_now(&pool->host->clock) < pool->refused_until_ns;
}

/* Lends a session for this use, if the budget allows one now. *out is NULL: the caller has to open
 * it. While sessions are scarce, a `watch` gets none and leaves the last one: the call that ends
 * its wait needs it. asks: ask the store although it refused a moment ago. */
static bool lend_locked(struct dl_pool *pool, enum dl_use use, bool asks, struct dl_session **out)
{
    bool scarce = pool->refused_until_ns != 0;
    bool open = pool->idle == NULL || (scarce && use == DL_USE_WAIT && pool->idle->next == NULL);

    if (!dl_session_pool_has_budget(pool, use))
        return false;
    if ((open || use == DL_USE_WAIT) && !asks && refused_locked(pool))
        return false;
    if (open && scarce) /* one thread asks the store, for all */
        pool->refused_until_ns = dl_clock_now(&pool->host->clock) + REFUSED_NS;
    *out = open ? NULL : idle_pop_locked(pool);
    pool->used[use]++;
    pool->lent += *out != NULL;
    pool->opening += *out == NULL;
    return true;
}

/* Takes the waiters out of the queues that may have a session now, for dl_wait_fifo_wake. */
static struct dl_wait_fifo_waiter *fifo_serve_locked(struct dl_pool *pool)
{
    struct dl_wait_fifo_waiter *served = NULL;

    for (enum dl_use use = 0; use < DL_USE_WAIT; use++) {
        struct dl_wait_fifo *fifo = &pool->fifo[use];
        struct dl_session *session;

        while (fifo->first != NULL && lend_locked(pool, use, false, &session)) {
            struct dl_wait_fifo_waiter *waiter = fifo->first;

            dl_wait_fifo_unlink_locked(fifo, waiter);
            waiter->got = session;
            waiter->next = served;
            served = waiter;
        }
    }
    return served;
}

/* When a waiter checks again without being woken: as soon as the store may be asked again, because
 * it may be the thread that has to ask. */
static int64_t recheck_ns_locked(const struct dl_pool *pool, int64_t now_ns)
{
    return refused_locked(pool) ? pool->refused_until_ns : now_ns + REFUSED_NS;
}

/* Whether a session that is lent to a wait would do. */
static bool wants_from_wait_locked(const struct dl_pool *pool, enum dl_use use)
{
    return pool->used[DL_USE_WAIT] > 0 && dl_session_pool_has_budget(pool, use) &&
           pool->host->session_wanted != NULL;
}

/* Waits in the queue until it is served (true), or until the deadline. The mutex is held before,
 * and not after. */
static bool fifo_await_locked(struct dl_pool *pool, enum dl_use use,
                              struct dl_wait_fifo_waiter *waiter, int64_t deadline_ns)
{
    const struct dl_clock *clock = &pool->host->clock;
    struct dl_wait_fifo *fifo = &pool->fifo[use];
    int64_t now_ns = dl_clock_now(clock);
    bool linked;

    dl_wait_fifo_join_locked(fifo, waiter);
    while (now_ns < deadline_ns) {
        int64_t until_ns = dl_earlier(recheck_ns_locked(pool, now_ns), deadline_ns);
        bool wants = wants_from_wait_locked(pool, use);
        struct dl_wait_fifo_waiter *served;

        (void)pthread_mutex_unlock(&pool->mutex);
        if (wants)
            pool->host->session_wanted(pool->host->session_arg);
        if (dl_wait_fifo_waiter_sleep(waiter, clock, until_ns))
            return true;
        (void)pthread_mutex_lock(&pool->mutex);
        now_ns = dl_clock_now(clock);
        served = now_ns < deadline_ns ? fifo_serve_locked(pool) : NULL;
        if (served == NULL)
            continue;
        (void)pthread_mutex_unlock(&pool->mutex);
        dl_wait_fifo_wake(served);
        (void)pthread_mutex_lock(&pool->mutex);
    }
    linked = waiter->linked;
    if (linked)
        dl_wait_fifo_unlink_locked(fifo, waiter);
    (void)pthread_mutex_unlock(&pool->mutex);
    return !linked && dl_wait_fifo_waiter_sleep(waiter, clock, DL_NEVER);
}

/* Gets a session in the order of arrival. false: none until the deadline. asks: see lend_locked. */
static bool session_await(struct dl_pool *pool, enum dl_use use, bool asks, int64_t deadline_ns,
                          struct dl_session **out)
{
    struct dl_wait_fifo_waiter waiter;
    bool got;

    (void)pthread_mutex_lock(&pool->mutex);
    got = pool->fifo[use].first == NULL && lend_locked(pool, use, asks, out);
    if (got || use == DL_USE_WAIT || dl_wait_fifo_waiter_init(&waiter) != 0) {
        (void)pthread_mutex_unlock(&pool->mutex);
        return got;
    }
    got = fifo_await_locked(pool, use, &waiter, deadline_ns);
    *out = waiter.got;
    dl_wait_fifo_waiter_fini(&waiter);
    return got;
}

/* If the store refused a session before, the next caller may ask again. */
static void may_ask_locked(struct dl_pool *pool, int64_t now_ns)
{
    if (pool->refused_until_ns > now_ns)
        pool->refused_until_ns = now_ns;
}

/* Records the result of opening a session. true: the store refuses more sessions, and the caller
 * should wait for a session that is lent now. */
static bool session_opened(struct dl_pool *pool, enum dl_use use, enum dlock_status status,
                           int64_t deadline_ns, const struct dlock_error *err, bool *waited)
{
    struct dl_wait_fifo_waiter *served;
    int64_t now_ns = dl_clock_now(&pool->host->clock);
    bool again = false;

    (void)pthread_mutex_lock(&pool->mutex);
    pool->opening--;
    if (status == DLOCK_OK) {
        pool->lent++;
        pool->refused_until_ns = 0;
    } else {
        pool->used[use]--;
    }
    if (status == DLOCK_UNAVAILABLE && now_ns < deadline_ns) {
        pool->refused_until_ns = now_ns + REFUSED_NS;
        (void)snprintf(pool->refusal, sizeof pool->refusal, "%.150s", err->message);
        again = pool->idle != NULL || pool->lent > 0 || (pool->opening > 0 && !*waited);
        again = again && use != DL_USE_WAIT;
        *waited = true;
        if (pool->lent + pool->opening == 0) /* all waiters find out at once */
            pool->refused_until_ns = 0;
    } else if (status != DLOCK_OK) { /* too little time to find out says nothing about the store */
        may_ask_locked(pool, now_ns);
    }
    served = fifo_serve_locked(pool);
    (void)pthread_mutex_unlock(&pool->mutex);
    dl_wait_fifo_wake(served);
    return again;
}

/* The error of a call that got no session. A call that acquires may go on waiting for one; others
 * have a deadline. */
static enum dlock_status spent(struct dl_pool *pool, enum dl_use use, struct dlock_error *err)
{
    enum dlock_status status =
        use == DL_USE_ACQUIRE || use == DL_USE_LEASE ? DLOCK_BUSY : DLOCK_UNAVAILABLE;

    (void)pthread_mutex_lock(&pool->mutex);
    if (refused_locked(pool))
        status =
            dl_error(err, status, "all connections are in use, and a further one is refused: %s",
                     pool->refusal);
    else
        status = dl_error(err, status, "all %u connections are in use (connections=)", pool->limit);
    (void)pthread_mutex_unlock(&pool->mutex);
    return status;
}

static enum dlock_status take_own(struct dl_pool *pool, enum dl_use use, int64_t deadline_ns,
                                  struct dl_session **out, struct dlock_error *err)
{
    enum dlock_status status;
    bool waited = false; /* for other threads that connect; once, or an outage would be found by one
                            thread after the other */

    do {
        /* C14: a lease may end before another thread asks the store for all. */
        if (!session_await(pool, use, use == DL_USE_RENEWER && !waited, deadline_ns, out))
            return spent(pool, use, err);
        if (*out != NULL)
            return DLOCK_OK;
        status = session_open(pool, deadline_ns, out, err);
    } while (session_opened(pool, use, status, deadline_ns, err, &waited));
    return status;
}

static enum dlock_status take_shared(struct dl_pool *pool, int64_t deadline_ns,
                                     struct dl_session **out, struct dlock_error *err)
{
    struct dl_session *session = atomic_load(&pool->shared);
    enum dlock_status status;

    if (session != NULL) {
        *out = session;
        return DLOCK_OK;
    }
    (void)pthread_mutex_lock(&pool->mutex);
    while (pool->shared == NULL && pool->connecting) {
        if (dl_clock_now(&pool->host->clock) >= deadline_ns) {
            (void)pthread_mutex_unlock(&pool->mutex);
            return dl_error(err, DLOCK_UNAVAILABLE, "still connecting");
        }
        dl_clock_wait(&pool->connected_changed, &pool->mutex, &pool->host->clock, deadline_ns);
    }
    if (pool->shared != NULL) {
        *out = pool->shared;
        (void)pthread_mutex_unlock(&pool->mutex);
        return DLOCK_OK;
    }
    pool->connecting = true;
    (void)pthread_mutex_unlock(&pool->mutex);
    status = session_open(pool, deadline_ns, &session, err);
    (void)pthread_mutex_lock(&pool->mutex);
    pool->connecting = false;
    pool->shared = session;
    *out = session;
    (void)pthread_cond_broadcast(&pool->connected_changed);
    (void)pthread_mutex_unlock(&pool->mutex);
    return status;
}

enum dlock_status dl_session_pool_take(struct dl_pool *pool, enum dl_use use, int64_t deadline_ns,
                                       struct dl_session **out, struct dlock_error *err)
{
    if (dl_session_pool_is_shared(pool))
        return take_shared(pool, deadline_ns, out, err);
    return take_own(pool, use, deadline_ns, out, err);
}

bool dl_session_pool_is_spent(struct dl_pool *pool, enum dl_use use)
{
    bool spent;

    if (dl_session_pool_is_shared(pool))
        return false;
    (void)pthread_mutex_lock(&pool->mutex);
    spent = pool->fifo[use].first != NULL || !dl_session_pool_has_budget(pool, use) ||
            (pool->idle == NULL && pool->lent > 0 && refused_locked(pool));
    (void)pthread_mutex_unlock(&pool->mutex);
    return spent;
}

/* Whether an idle session may be lent to a wait. While sessions are scarce it leaves the last one.
 */
static bool lends_to_wait_locked(struct dl_pool *pool)
{
    return dl_session_pool_has_budget(pool, DL_USE_WAIT) && pool->idle != NULL &&
           (pool->refused_until_ns == 0 || (pool->idle->next != NULL && !refused_locked(pool)));
}

struct dl_session *dl_session_pool_take_idle(struct dl_pool *pool, enum dl_use use)
{
    struct dl_session *session = NULL;

    (void)pthread_mutex_lock(&pool->mutex);
    if (dl_session_pool_is_shared(pool)) {
        session = pool->shared;
    } else if (use != DL_USE_WAIT || lends_to_wait_locked(pool)) {
        session = idle_pop_locked(pool);
        pool->used[use] += session != NULL;
        pool->lent += session != NULL;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return session;
}

bool dl_session_pool_breaks(enum dlock_status status)
{
    switch (status) {
    case DLOCK_TIMEOUT: /* of `lock` */
    case DLOCK_CANCELED:
    case DLOCK_UNKNOWN:
    case DLOCK_UNAVAILABLE:
    case DLOCK_NO_QUORUM:
    case DLOCK_AUTH:
    case DLOCK_CONFIG: /* a store that was replaced is read anew */
    case DLOCK_NO_STORE:
    case DLOCK_PROTOCOL:
    case DLOCK_INTERNAL:
        return true;
    default:
        return false;
    }
}

/* Closes it before any waiter is served, or the store could refuse the waiter because of it. */
static void broken_close(struct dl_pool *pool, struct dl_session *session, enum dlock_status status)
{
    if (status == DLOCK_UNAVAILABLE) { /* idle sessions may be as dead */
        (void)pthread_mutex_lock(&pool->mutex);
        session->next = pool->idle;
        pool->idle = NULL;
        (void)pthread_mutex_unlock(&pool->mutex);
    }
    (void)atomic_fetch_add(&pool->broken, 1);
    sessions_close(pool, session, false);
}

void dl_session_pool_put(struct dl_pool *pool, enum dl_use use, struct dl_session *session,
                         enum dlock_status status)
{
    bool broken = dl_session_pool_breaks(status);
    struct dl_wait_fifo_waiter *served;
    int64_t now_ns;

    if (dl_session_pool_is_shared(pool))
        return;
    if (broken)
        broken_close(pool, session, status);
    now_ns = dl_clock_now(&pool->host->clock);
    (void)pthread_mutex_lock(&pool->mutex);
    if (broken) {
        may_ask_locked(pool, now_ns); /* there is room for another session */
    } else {
        session->idle_ns = now_ns;
        session->next = pool->idle;
        pool->idle = session;
    }
    pool->used[use]--;
    pool->lent--;
    served = fifo_serve_locked(pool);
    (void)pthread_mutex_unlock(&pool->mutex);
    dl_wait_fifo_wake(served);
}

int64_t dl_session_pool_trim_ns(struct dl_pool *pool, int64_t now_ns)
{
    const struct dl_session *last;
    int64_t at_ns = now_ns + IDLE_NS;

    if (dl_session_pool_is_shared(pool))
        return DL_NEVER;
    (void)pthread_mutex_lock(&pool->mutex);
    last = pool->idle != NULL ? pool->idle->next : NULL;
    while (last != NULL && last->next != NULL)
        last = last->next;
    if (last != NULL)
        at_ns = last->idle_ns + IDLE_NS;
    else if (pool->lent + pool->opening + (pool->idle != NULL) <= 1)
        at_ns = DL_NEVER;
    (void)pthread_mutex_unlock(&pool->mutex);
    return at_ns;
}

void dl_session_pool_trim(struct dl_pool *pool)
{
    int64_t now_ns = dl_clock_now(&pool->host->clock);
    struct dl_session *old = NULL;

    (void)pthread_mutex_lock(&pool->mutex);
    if (pool->idle != NULL) {
        struct dl_session **at = &pool->idle->next;

        while (*at != NULL && (*at)->idle_ns + IDLE_NS > now_ns)
            at = &(*at)->next;
        old = *at;
        *at = NULL;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    sessions_close(pool, old, false);
}

uint64_t dl_session_pool_caps(struct dl_pool *pool)
{
    uint64_t caps;

    (void)pthread_mutex_lock(&pool->mutex);
    caps = pool->info.caps;
    (void)pthread_mutex_unlock(&pool->mutex);
    return caps;
}

void dl_session_pool_caps_limit(struct dl_pool *pool, uint64_t caps)
{
    (void)pthread_mutex_lock(&pool->mutex);
    pool->info.caps &=
        caps | ~(DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE | DLOCK_CAP_FAILOVER_SAFE);
    (void)pthread_mutex_unlock(&pool->mutex);
}
