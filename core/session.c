/* SPDX-License-Identifier: MIT */
#include "session.h"
#include "dispatch.h"
#include "error.h"

#include <stdlib.h>

enum dlock_status dl_pool_init(struct dl_pool *pool, const struct dl_plugin *plugin,
                               const struct dlock_target *target, struct dl_host *host,
                               int64_t connect_timeout_ms, int connections, struct dlock_error *err)
{
    *pool = (struct dl_pool){
        .plugin = plugin,
        .target = target,
        .host = host,
        .connect_timeout_ms = connect_timeout_ms,
        .limit = (unsigned)connections,
    };
    if (pthread_mutex_init(&pool->mutex, NULL) != 0)
        return dl_error(err, DLOCK_NOMEM, "no memory for a mutex");
    if (dl_cond_init(&pool->connected_changed) != 0) {
        (void)pthread_mutex_destroy(&pool->mutex);
        return dl_error(err, DLOCK_NOMEM, "no memory for a condition variable");
    }
    return DLOCK_OK;
}

static void session_close(struct dl_pool *pool, struct dl_session *session, bool forked)
{
    dl_dispatch_close(pool->plugin, session->self, forked);
    free(session);
}

static void sessions_close(struct dl_pool *pool, struct dl_session *session, bool forked)
{
    while (session != NULL) {
        struct dl_session *next = session->next;

        session_close(pool, session, forked);
        session = next;
    }
}

void dl_pool_fini(struct dl_pool *pool, bool forked)
{
    sessions_close(pool, pool->idle, forked);
    if (pool->shared != NULL)
        session_close(pool, pool->shared, forked);
    if (forked)
        return;
    (void)pthread_cond_destroy(&pool->connected_changed);
    (void)pthread_mutex_destroy(&pool->mutex);
}

static bool pool_concurrent(const struct dl_pool *pool)
{
    return (pool->plugin->caps & DLOCK_CAP_CONCURRENT) != 0;
}

static bool budget_free(const struct dl_pool *pool, enum dl_use use)
{
    unsigned operations = pool->used[DL_USE_ACQUIRE] + pool->used[DL_USE_HOLDER];

    switch (use) {
    case DL_USE_ACQUIRE:
        return operations + 1 < pool->limit;
    case DL_USE_HOLDER:
        return operations < pool->limit;
    case DL_USE_KEEPER:
        return true;
    case DL_USE_WAIT:
    case DL_USE_PIN:
        return pool->used[use] < pool->limit;
    }
    return false;
}

static enum dlock_status session_open(struct dl_pool *pool, int64_t deadline_ns,
                                      struct dl_session **out, struct dlock_error *err)
{
    struct dlock_session_info info = {0};
    int64_t now_ns = dl_clock_now(&pool->host->clock);
    int64_t connect_by_ns = dl_clock_after_ms(now_ns, pool->connect_timeout_ms);
    struct dl_session *session;
    enum dlock_status status;

    session =
        aligned_alloc(16, (sizeof *session + pool->plugin->ops.session_size + 15) & ~(size_t)15);
    if (session == NULL)
        return dl_error(err, DLOCK_NOMEM, "no memory for a session");
    *session = (struct dl_session){0};
    status =
        dl_dispatch_open(pool->plugin, session->self, &pool->host->table, pool->target,
                         connect_by_ns < deadline_ns ? connect_by_ns : deadline_ns, &info, err);
    if (status != DLOCK_OK) {
        session_close(pool, session, false);
        return status;
    }
    session->caps = info.caps;
    (void)pthread_mutex_lock(&pool->mutex);
    pool->info = info;
    (void)pthread_mutex_unlock(&pool->mutex);
    *out = session;
    return DLOCK_OK;
}

/* With the mutex held: an idle session, or NULL. */
static struct dl_session *idle_pop(struct dl_pool *pool)
{
    struct dl_session *session = pool->idle;

    if (session != NULL) {
        pool->idle = session->next;
        session->next = NULL;
    }
    return session;
}

static void budget_return_locked(struct dl_pool *pool, enum dl_use use)
{
    struct dl_pool_waiter **at = &pool->line;

    pool->used[use]--;
    while (*at != NULL) {
        struct dl_pool_waiter *waiter = *at;

        if (!budget_free(pool, waiter->use)) {
            at = &waiter->next;
            continue;
        }
        pool->used[waiter->use]++;
        *at = waiter->next;
        waiter->served = true;
        (void)pthread_cond_broadcast(&waiter->served_changed);
    }
}

static void budget_return(struct dl_pool *pool, enum dl_use use)
{
    (void)pthread_mutex_lock(&pool->mutex);
    budget_return_locked(pool, use);
    (void)pthread_mutex_unlock(&pool->mutex);
}

static void line_leave(struct dl_pool *pool, const struct dl_pool_waiter *waiter)
{
    struct dl_pool_waiter **at = &pool->line;

    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
}

/* In line until the budget is ours (true) or the deadline. With the mutex held. */
static bool budget_await(struct dl_pool *pool, enum dl_use use, int64_t deadline_ns)
{
    struct dl_pool_waiter waiter = {.use = use}, **last = &pool->line;

    if (dl_cond_init(&waiter.served_changed) != 0)
        return false;
    while (*last != NULL)
        last = &(*last)->next;
    *last = &waiter;
    while (!waiter.served && dl_clock_now(&pool->host->clock) < deadline_ns)
        dl_cond_wait_until(&waiter.served_changed, &pool->mutex, &pool->host->clock, deadline_ns);
    if (!waiter.served)
        line_leave(pool, &waiter);
    (void)pthread_cond_destroy(&waiter.served_changed);
    return waiter.served;
}

/* Nobody is passed who waits for the same. With the mutex held. */
static bool budget_take(struct dl_pool *pool, enum dl_use use, int64_t deadline_ns)
{
    const struct dl_pool_waiter *waiter = pool->line;

    while (waiter != NULL && waiter->use != use)
        waiter = waiter->next;
    if (waiter == NULL && budget_free(pool, use)) {
        pool->used[use]++;
        return true;
    }
    return use != DL_USE_WAIT && budget_await(pool, use, deadline_ns);
}

/* Whoever wants a lock may go on waiting for a connection of ours; others have a deadline. */
static enum dlock_status spent_status(enum dl_use use)
{
    return use == DL_USE_ACQUIRE || use == DL_USE_PIN ? DLOCK_BUSY : DLOCK_UNAVAILABLE;
}

static enum dlock_status take_own(struct dl_pool *pool, enum dl_use use, int64_t deadline_ns,
                                  struct dl_session **out, struct dlock_error *err)
{
    enum dlock_status status;

    (void)pthread_mutex_lock(&pool->mutex);
    if (!budget_take(pool, use, deadline_ns)) {
        (void)pthread_mutex_unlock(&pool->mutex);
        return dl_error(err, spent_status(use), "all %u connections are in use (connections=)",
                        pool->limit);
    }
    *out = idle_pop(pool);
    (void)pthread_mutex_unlock(&pool->mutex);
    if (*out != NULL)
        return DLOCK_OK;
    status = session_open(pool, deadline_ns, out, err);
    if (status != DLOCK_OK)
        budget_return(pool, use);
    return status;
}

static enum dlock_status take_shared(struct dl_pool *pool, int64_t deadline_ns,
                                     struct dl_session **out, struct dlock_error *err)
{
    struct dl_session *session = NULL;
    enum dlock_status status;

    (void)pthread_mutex_lock(&pool->mutex);
    while (pool->shared == NULL && pool->connecting) {
        if (dl_clock_now(&pool->host->clock) >= deadline_ns) {
            (void)pthread_mutex_unlock(&pool->mutex);
            return dl_error(err, DLOCK_UNAVAILABLE, "still connecting");
        }
        dl_cond_wait_until(&pool->connected_changed, &pool->mutex, &pool->host->clock, deadline_ns);
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

enum dlock_status dl_pool_take(struct dl_pool *pool, enum dl_use use, int64_t deadline_ns,
                               struct dl_session **out, struct dlock_error *err)
{
    if (pool_concurrent(pool))
        return take_shared(pool, deadline_ns, out, err);
    return take_own(pool, use, deadline_ns, out, err);
}

struct dl_session *dl_pool_take_idle(struct dl_pool *pool)
{
    struct dl_session *session;

    (void)pthread_mutex_lock(&pool->mutex);
    if (pool_concurrent(pool)) {
        session = pool->shared;
    } else {
        session = idle_pop(pool);
        if (session != NULL)
            pool->used[DL_USE_HOLDER]++;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return session;
}

static bool status_breaks(enum dlock_status status)
{
    switch (status) {
    case DLOCK_TIMEOUT: /* of `lock` */
    case DLOCK_CANCELED:
    case DLOCK_UNKNOWN:
    case DLOCK_UNAVAILABLE:
    case DLOCK_NO_QUORUM:
    case DLOCK_AUTH:
    case DLOCK_CONFIG: /* a store that was replaced is looked at afresh */
    case DLOCK_PROTOCOL:
    case DLOCK_INTERNAL:
        return true;
    default:
        return false;
    }
}

void dl_pool_put(struct dl_pool *pool, enum dl_use use, struct dl_session *session,
                 enum dlock_status status)
{
    struct dl_session *broken = NULL;

    if (pool_concurrent(pool))
        return;
    (void)pthread_mutex_lock(&pool->mutex);
    if (status == DLOCK_UNAVAILABLE) { /* what idled meanwhile may be just as dead */
        broken = pool->idle;
        pool->idle = NULL;
    }
    if (status_breaks(status)) {
        session->next = broken;
        broken = session;
    } else {
        session->next = pool->idle;
        pool->idle = session;
    }
    budget_return_locked(pool, use); /* after the session, which the next one takes */
    (void)pthread_mutex_unlock(&pool->mutex);
    sessions_close(pool, broken, false);
}

uint32_t dl_pool_caps(struct dl_pool *pool)
{
    uint32_t caps;

    (void)pthread_mutex_lock(&pool->mutex);
    caps = pool->info.caps;
    (void)pthread_mutex_unlock(&pool->mutex);
    return caps;
}

void dl_pool_caps_limit(struct dl_pool *pool, uint32_t caps)
{
    (void)pthread_mutex_lock(&pool->mutex);
    pool->info.caps &= caps | ~(uint32_t)(DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE);
    (void)pthread_mutex_unlock(&pool->mutex);
}
