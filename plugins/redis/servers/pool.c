/* SPDX-License-Identifier: MIT */
#include "redis/servers/pool.h"
#include "lib/time.h"
#include "resp/error.h"
#include "resp/guard.h"

#include "redis/guard/guard.h"
#include "redis/link/pipeline.h"
#include "redis/servers/sentinels.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_NS      (DL_NS_PER_S / 2) /* the first pause; chance adds as much at most */
#define RETRY_MOST_NS (32 * DL_NS_PER_S)
#define NOT_KNOWN     UINT32_MAX        /* capabilities before the first connection */
#define FURTHER_NS    (DL_NS_PER_S / 2) /* the most time for a further connection */
#define DOUBT_NS      DL_NS_PER_S       /* between two questions to the sentinels */

static int64_t now(const struct redis_pool *pool)
{
    return pool->host->now_ns(pool->host->ctx);
}

void redis_pool_init(struct redis_pool *pool, void *session, const struct dlock_host *host,
                     const struct resp_config *config, const struct tls *tls, int64_t limit)
{
    pool->session = session;
    pool->host = host;
    pool->config = config;
    pool->tls = tls;
    atomic_init(&pool->caps, NOT_KNOWN);
    pool->limit = limit > 0 ? (unsigned)limit : 1;
    pool->processors = config->spin ? spin_processors() : 0;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    (void)dl_deadline_cond_init(&pool->changed);
}

static void pipeline_end(struct redis_pipeline *pipeline)
{
    redis_guard_free(pipeline->guard);
    redis_pipeline_close(pipeline);
}

static void pipelines_close(struct redis_pipeline *pipeline)
{
    while (pipeline != NULL) {
        struct redis_pipeline *next = pipeline->next;

        pipeline_end(pipeline);
        pipeline = next;
    }
}

void redis_pool_fini(struct redis_pool *pool)
{
    if (pool->host == NULL)
        return;
    pipelines_close(pool->pipelines);
    (void)pthread_cond_destroy(&pool->changed);
    (void)pthread_mutex_destroy(&pool->mutex);
}

void redis_pool_after_fork(struct redis_pool *pool)
{
    for (struct redis_pipeline *pipeline = pool->pipelines; pipeline != NULL;
         pipeline = pipeline->next)
        redis_pipeline_after_fork(pipeline);
}

/* ---- connecting ---- */

/* Set once a connection: the scripts see another start. Also for a server that forgets nothing: the
 * settings with which it starts, and with which it ran before, are not known. */
static void guard_set(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                      const struct resp_info *info)
{
    int64_t left_ms = resp_guard_left_ms(pool->config->restart_guard_ms, info->uptime_s);

    pipeline->guard_until_ns = left_ms > 0 ? now(pool) + left_ms * DL_NS_PER_MS : 0;
}

static const char *loss_text(uint64_t gone)
{
    if ((gone & DLOCK_CAP_CRASH_SAFE) != 0)
        return "a crash of the server forgets locks";
    if ((gone & DLOCK_CAP_FENCE_DURABLE) != 0)
        return "a crash of the server forgets the last fencing tokens";
    return "a failover may make two holders";
}

/* Core knows the capabilities of the first connection [C16]. */
static void caps_check(struct redis_pool *pool, uint64_t caps)
{
    uint64_t known = atomic_fetch_and(&pool->caps, caps), gone = known & ~caps;
    char line[300];

    if (gone == 0 || known == NOT_KNOWN)
        return;
    (void)snprintf(line, sizeof line,
                   "%s: less can be relied on than was announced, until the client is opened "
                   "again: %s",
                   pool->config->endpoint, loss_text(gone));
    pool->host->session_caps(pool->host->ctx, pool->session, caps);
    pool->host->log(pool->host->ctx, 1, line);
}

/* The settings of a new connection, with the address of the server. */
static enum dlock_status server_find(struct redis_pool *pool, int64_t deadline_ns,
                                     struct resp_config *config, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    *config = *pool->config;
    if (pool->sentinels == NULL)
        return DLOCK_OK;
    atomic_store(&pool->asked_ns, now(pool));
    status = redis_sentinels_ask(pool->sentinels, deadline_ns, &config->address, NULL, err);
    if (status == DLOCK_OK)
        address_format(&config->address, config->endpoint, sizeof config->endpoint);
    return status;
}

void redis_pool_caps_take(struct redis_pool *pool, const struct redis_pipeline *pipeline,
                          uint64_t *caps)
{
    if (pipeline->guard->on && pipeline->guard->is_safe)
        *caps |= DLOCK_CAP_FAILOVER_SAFE;
    caps_check(pool, *caps);
}

/* A client that is open waits while its server is a replica, or has one that nothing guards: that
 * may end. */
static enum dlock_status judge(struct redis_pool *pool, struct redis_pipeline *pipeline,
                               struct resp_info *info, int64_t deadline_ns, uint64_t *caps,
                               struct dlock_error *err)
{
    bool was_open = atomic_load(&pool->caps) != NOT_KNOWN;
    bool may_end = strcmp(info->role, "master") != 0;
    enum dlock_status status = resp_info_judge(info, &pipeline->config, caps, err);

    if (status == DLOCK_OK) {
        may_end = true;
        status = redis_guard_begin(pipeline, &pool->guarded, info, deadline_ns, err);
    }
    if (status == DLOCK_CONFIG && was_open && may_end)
        return err->status = DLOCK_UNAVAILABLE;
    if (status == DLOCK_OK)
        redis_pool_caps_take(pool, pipeline, caps);
    return status;
}

static enum dlock_status pipeline_make(struct redis_pool *pool, int64_t deadline_ns,
                                       struct resp_info *server_info, uint64_t *caps,
                                       struct redis_pipeline **out, struct dlock_error *err)
{
    struct resp_config config;
    enum dlock_status status = server_find(pool, deadline_ns, &config, err);

    if (status == DLOCK_OK)
        status =
            redis_pipeline_open(out, &config, pool->tls, pool->host, deadline_ns, server_info, err);
    if (status != DLOCK_OK)
        return status;
    (*out)->guard = redis_guard_new(pool->host, pool->config);
    if ((*out)->guard == NULL)
        status = resp_error_fail(pool->config, err, DLOCK_NOMEM, "no memory for a connection");
    else
        status = judge(pool, *out, server_info, deadline_ns, caps, err);
    if (status != DLOCK_OK) {
        pipeline_end(*out);
        *out = NULL;
        return status;
    }
    (*out)->config.settings_hidden = server_info->fsync[0] == '\0';
    guard_set(pool, *out, server_info);
    atomic_store(&(*out)->viewed_ns, now(pool));
    atomic_store(&(*out)->settings_ns, now(pool));
    spin_init(&(*out)->connection.stream.spin, pool->processors);
    return DLOCK_OK;
}

/* Connections to the server of before take no more requests. With the mutex held, as in the other
 * functions below that do not connect. */
static void others_end(struct redis_pool *pool, const char *endpoint)
{
    for (struct redis_pipeline *pipeline = pool->pipelines; pipeline != NULL;
         pipeline = pipeline->next)
        if (strcmp(pipeline->config.endpoint, endpoint) != 0)
            atomic_store(&pipeline->dead, true);
}

static void pipeline_list(struct redis_pool *pool, struct redis_pipeline *pipeline, unsigned users)
{
    struct redis_pipeline **at = &pool->pipelines;

    others_end(pool, pipeline->config.endpoint);
    while (*at != NULL)
        at = &(*at)->next;
    pipeline->users = users;
    *at = pipeline;
}

enum dlock_status redis_pool_connect(struct redis_pool *pool, bool keep, int64_t deadline_ns,
                                     struct resp_info *server_info, uint64_t *caps,
                                     struct dlock_error *err)
{
    struct redis_pipeline *pipeline = NULL;
    enum dlock_status status = pipeline_make(pool, deadline_ns, server_info, caps, &pipeline, err);

    if (status != DLOCK_OK)
        return status;
    if (!keep) {
        pipeline_end(pipeline);
        return DLOCK_OK;
    }
    (void)pthread_mutex_lock(&pool->mutex);
    pipeline_list(pool, pipeline, 0);
    atomic_store(&pool->caps, *caps);
    (void)pthread_mutex_unlock(&pool->mutex);
    return DLOCK_OK;
}

/* ---- choosing ---- */

/* The live connection with the fewest users; NULL: there is none. */
static struct redis_pipeline *pipeline_find(const struct redis_pool *pool, unsigned *count)
{
    struct redis_pipeline *found = NULL;

    *count = 0;
    for (struct redis_pipeline *pipeline = pool->pipelines; pipeline != NULL;
         pipeline = pipeline->next) {
        if (atomic_load(&pipeline->dead))
            continue;
        ++*count;
        if (found == NULL || pipeline->users < found->users)
            found = pipeline;
    }
    return found;
}

/* The pause doubles with each failure in a row. With the mutex held. */
static void retry_later(struct redis_pool *pool)
{
    uint32_t chance = 0;

    (void)pool->host->random(pool->host->ctx, &chance, sizeof chance);
    pool->pause_ns = pool->pause_ns == 0 ? RETRY_NS : 2 * pool->pause_ns;
    if (pool->pause_ns > RETRY_MOST_NS)
        pool->pause_ns = RETRY_MOST_NS;
    pool->retry_ns = now(pool) + pool->pause_ns + chance % RETRY_NS;
}

/* The deadline of a further connection: a part of the time of the request, which could use another
 * connection. */
static int64_t further_by(const struct redis_pool *pool, int64_t deadline_ns)
{
    int64_t now_ns = now(pool), quarter_ns = (deadline_ns - now_ns) / 4;

    if (quarter_ns <= 0)
        return deadline_ns;
    return now_ns + (quarter_ns < FURTHER_NS ? quarter_ns : FURTHER_NS);
}

/* If a further connection fails, or is not there soon, none is tried for a while. */
static enum dlock_status connect_one(struct redis_pool *pool, int64_t deadline_ns,
                                     struct redis_pipeline **out, struct dlock_error *err)
{
    struct resp_info server_info;
    uint64_t caps = 0;
    unsigned count = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    if (pipeline_find(pool, &count) != NULL)
        deadline_ns = further_by(pool, deadline_ns);
    pool->connecting = true;
    (void)pthread_mutex_unlock(&pool->mutex);
    status = pipeline_make(pool, deadline_ns, &server_info, &caps, out, err);
    pool->host->connection(pool->host->ctx,
                           status == DLOCK_OK ? DLOCK_CONNECTION_MADE : DLOCK_CONNECTION_FAILED);
    (void)pthread_mutex_lock(&pool->mutex);
    pool->connecting = false;
    (void)pthread_cond_broadcast(&pool->changed);
    if (status == DLOCK_OK) {
        pool->pause_ns = 0;
        pipeline_list(pool, *out, 1);
        return status;
    }
    *out = pipeline_find(pool, &count);
    if (*out == NULL)
        return status;
    retry_later(pool);
    (*out)->users++;
    return DLOCK_OK;
}

void redis_pool_doubt(struct redis_pool *pool)
{
    atomic_store(&pool->doubted, pool->sentinels != NULL);
}

/* Asks the sentinels, for half of the request's time at most. Without an answer the doubt stays. */
static void doubt_settle(struct redis_pool *pool, int64_t deadline_ns)
{
    int64_t asked_ns = atomic_load(&pool->asked_ns), now_ns = now(pool);
    int64_t most_ns = (deadline_ns - now_ns) / 2;
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct resp_config config;

    if (now_ns - asked_ns < DOUBT_NS || most_ns <= 0 ||
        !atomic_compare_exchange_strong(&pool->asked_ns, &asked_ns, now_ns))
        return;
    if (server_find(pool, now_ns + (most_ns < FURTHER_NS ? most_ns : FURTHER_NS), &config,
                    &ignored) != DLOCK_OK)
        return;
    (void)pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->doubted, false);
    others_end(pool, config.endpoint);
    (void)pthread_mutex_unlock(&pool->mutex);
}

enum dlock_status redis_pool_take(struct redis_pool *pool, int64_t deadline_ns,
                                  struct redis_pipeline **out, bool *fresh, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    *fresh = false;
    if (atomic_load(&pool->doubted))
        doubt_settle(pool, deadline_ns);
    (void)pthread_mutex_lock(&pool->mutex);
    for (;;) {
        unsigned count = 0;
        struct redis_pipeline *pipeline = pipeline_find(pool, &count);
        int64_t now_ns = 0;

        *out = pipeline;
        if (pipeline != NULL && (pipeline->users == 0 || count >= pool->limit || pool->connecting))
            break;
        now_ns = now(pool);
        if (pipeline != NULL && now_ns < pool->retry_ns)
            break;
        if (!pool->connecting) {
            *fresh = true;
            status = connect_one(pool, deadline_ns, out, err);
            (void)pthread_mutex_unlock(&pool->mutex);
            return status;
        }
        if (now_ns >= deadline_ns) {
            (void)pthread_mutex_unlock(&pool->mutex);
            return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE, "no connection in time");
        }
        dl_deadline_cond_wait(&pool->changed, &pool->mutex, deadline_ns - now_ns);
    }
    (*out)->users++;
    (void)pthread_mutex_unlock(&pool->mutex);
    return status;
}

/* When a connection has died, unused ones may be dead, too, without a sign: they are closed. */
void redis_pool_put(struct redis_pool *pool, struct redis_pipeline *pipeline)
{
    struct redis_pipeline **at = &pool->pipelines, *unused = NULL;

    (void)pthread_mutex_lock(&pool->mutex);
    pipeline->users--;
    while (atomic_load(&pipeline->dead) && *at != NULL) {
        struct redis_pipeline *next = *at;

        if (next->users > 0) {
            at = &next->next;
            continue;
        }
        if (atomic_load(&next->dead))
            pool->host->connection(pool->host->ctx, DLOCK_CONNECTION_BROKEN);
        *at = next->next;
        next->next = unused;
        unused = next;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    pipelines_close(unused);
}
