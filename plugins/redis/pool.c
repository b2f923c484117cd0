/* SPDX-License-Identifier: MIT */
#include "pool.h"
#include "lib/time.h"
#include "resp/error.h"
#include "resp/guard.h"

#include "lib/deadline_cond.h"
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_NS       (DL_NS_PER_S / 2) /* the first pause; chance adds as much at most */
#define RETRY_MOST_NS  (32 * DL_NS_PER_S)
#define ROLE_LASTS_NS  DL_NS_PER_S
#define ROLE_MAX_BYTES ((size_t)64 * 1024)
#define NOT_KNOWN      UINT32_MAX        /* capabilities before the first connection */
#define FURTHER_NS     (DL_NS_PER_S / 2) /* the most time for a further connection */

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

static void pipelines_close(struct redis_pipeline *pipeline)
{
    while (pipeline != NULL) {
        struct redis_pipeline *next = pipeline->next;

        redis_pipeline_close(pipeline);
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

int64_t redis_pool_guard_ms(const struct redis_pool *pool)
{
    bool durable = (atomic_load(&pool->caps) & DLOCK_CAP_FENCE_DURABLE) != 0;

    return durable ? 0 : pool->config->restart_guard_ms;
}

/* Set once a connection, as a restart ends the connection; after caps_check, which
 * redis_pool_guard_ms reads. A server that is durable now may have forgotten the locks from before
 * its start: a client sees that by the file that began empty. */
static void guard_set(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                      const struct resp_info *info)
{
    int64_t guard_ms =
        info->aof_began_empty ? pool->config->restart_guard_ms : redis_pool_guard_ms(pool);
    int64_t left_ms = resp_guard_left_ms(guard_ms, info->uptime_s);

    pipeline->guard_until_ns = left_ms > 0 ? now(pool) + left_ms * DL_NS_PER_MS : 0;
}

/* Core knows the capabilities of the first connection [C16]. */
static void caps_check(struct redis_pool *pool, uint32_t caps)
{
    uint32_t known = atomic_fetch_and(&pool->caps, caps), gone = known & ~caps;
    char line[300];

    if (gone == 0 || known == NOT_KNOWN)
        return;
    (void)snprintf(line, sizeof line,
                   "%s: less can be relied on than was announced, until the client is opened "
                   "again: a crash of the server forgets %s",
                   pool->config->endpoint,
                   (gone & DLOCK_CAP_CRASH_SAFE) != 0 ? "locks" : "the last fencing tokens");
    pool->host->session_caps(pool->host->ctx, pool->session, caps);
    pool->host->log(pool->host->ctx, 1, line);
}

static enum dlock_status pipeline_make(struct redis_pool *pool, int64_t deadline_ns,
                                       struct resp_info *server_info, uint32_t *caps,
                                       struct redis_pipeline **out, struct dlock_error *err)
{
    enum dlock_status status = redis_pipeline_open(out, pool->config, pool->tls, pool->host,
                                                   deadline_ns, server_info, err);

    if (status != DLOCK_OK)
        return status;
    status = resp_info_judge(server_info, pool->config, caps, err);
    if (status != DLOCK_OK) {
        redis_pipeline_close(*out);
        *out = NULL;
        return status;
    }
    caps_check(pool, *caps);
    guard_set(pool, *out, server_info);
    atomic_store(&(*out)->role_ns, now(pool));
    spin_init(&(*out)->connection.stream.spin, pool->processors);
    return DLOCK_OK;
}

/* With the mutex held, as in the other functions below that do not connect. */
static void pipeline_list(struct redis_pool *pool, struct redis_pipeline *pipeline, unsigned users)
{
    struct redis_pipeline **at = &pool->pipelines;

    while (*at != NULL)
        at = &(*at)->next;
    pipeline->users = users;
    *at = pipeline;
}

enum dlock_status redis_pool_connect(struct redis_pool *pool, bool keep, int64_t deadline_ns,
                                     struct resp_info *server_info, uint32_t *caps,
                                     struct dlock_error *err)
{
    struct redis_pipeline *pipeline = NULL;
    enum dlock_status status = pipeline_make(pool, deadline_ns, server_info, caps, &pipeline, err);

    if (status != DLOCK_OK)
        return status;
    if (!keep) {
        redis_pipeline_close(pipeline);
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
    uint32_t caps = 0;
    unsigned count = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    if (pipeline_find(pool, &count) != NULL)
        deadline_ns = further_by(pool, deadline_ns);
    pool->connecting = true;
    (void)pthread_mutex_unlock(&pool->mutex);
    status = pipeline_make(pool, deadline_ns, &server_info, &caps, out, err);
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

/* *fresh: the connection was made here. */
static enum dlock_status pipeline_take(struct redis_pool *pool, int64_t deadline_ns,
                                       struct redis_pipeline **out, bool *fresh,
                                       struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    *fresh = false;
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
static void pipeline_put(struct redis_pool *pool, struct redis_pipeline *pipeline)
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
        *at = next->next;
        next->next = unused;
        unused = next;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    pipelines_close(unused);
}

/* ---- asking ---- */

/* After READONLY or NOAUTH the next connection judges the server again. */
static bool is_over(const struct redis_exchange *exchange)
{
    return exchange->status == DLOCK_OK &&
           (resp_error_is(exchange->reply, "READONLY") || resp_error_is(exchange->reply, "NOAUTH"));
}

uint32_t redis_pool_number(struct redis_pool *pool)
{
    uint32_t number = 0;

    while (number == 0)
        number = atomic_fetch_add(&pool->numbers, 1) + 1;
    return number;
}

static bool is_number(const redisReply *reply, uint32_t number)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == number;
}

/* The text ends with a space and the number. */
static bool text_cut(redisReply *reply, uint32_t number)
{
    char digits[RESP_DIGITS];
    size_t len = strlen(resp_command_number(digits, number));
    size_t all = (size_t)reply->len;

    if (strlen(reply->str) != all || all <= len || reply->str[all - len - 1] != ' ' ||
        memcmp(reply->str + all - len, digits, len) != 0)
        return false;
    reply->str[all - len - 1] = '\0';
    return true;
}

/* The number is its last element. */
static bool array_cut(redisReply *reply, uint32_t number)
{
    if (reply->elements == 0 || !is_number(reply->element[reply->elements - 1], number))
        return false;
    freeReplyObject(reply->element[--reply->elements]);
    return true;
}

static bool number_cut(redisReply *reply, uint32_t number)
{
    if (reply->type == REDIS_REPLY_ARRAY)
        return array_cut(reply, number);
    if (reply->type == REDIS_REPLY_STRING)
        return text_cut(reply, number);
    return is_number(reply, number);
}

/* An answer to another request must never get through. */
static bool validate(const void *asked, redisReply *reply)
{
    const struct redis_request *request = asked;

    if (reply->type == REDIS_REPLY_ERROR)
        return true;
    if (request->number != 0 && !number_cut(reply, request->number))
        return false;
    return request->validate(request, reply);
}

/* A server that started a moment ago may have forgotten its grants. */
static enum dlock_status guard_check(const struct redis_pool *pool,
                                     const struct redis_pipeline *pipeline,
                                     const struct redis_request *request, struct dlock_error *err)
{
    int64_t left_ns = pipeline->guard_until_ns != 0 ? pipeline->guard_until_ns - now(pool) : 0;
    char text[180];

    if (request->guarded != NULL)
        *request->guarded = left_ns > 0 ? '1' : '0';
    if (left_ns <= 0 || !request->grants)
        return DLOCK_OK;
    *request->guard_left_ms = left_ns / DL_NS_PER_MS + 1;
    resp_guard_text(text, sizeof text, pool->config->restart_guard_ms, *request->guard_left_ms);
    return resp_error_fail(pool->config, err, DLOCK_BUSY, "%s", text);
}

static bool role_validate(const void *asked, redisReply *reply)
{
    (void)asked;
    return reply->type == REDIS_REPLY_ERROR ||
           (reply->type == REDIS_REPLY_STRING &&
            memmem(reply->str, (size_t)reply->len, "role:", 5) != NULL);
}

/* If the server is no master, or does not say that it is, the next connection judges it again. */
static enum dlock_status role_judge(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                    const redisReply *reply, struct dlock_error *err)
{
    struct resp_info server_info = {.role = ""};

    resp_info_parse(&server_info, reply->str, (size_t)reply->len);
    if (strcmp(server_info.role, "master") == 0)
        return DLOCK_OK;
    atomic_store(&pipeline->dead, true);
    if (reply->type != REDIS_REPLY_ERROR)
        return resp_error_fail(pool->config, err, DLOCK_CONFIG,
                               "became a replica (role %s): take locks at the master",
                               server_info.role);
    return resp_error_take(pool->config, reply, err) == DLOCK_UNKNOWN
               ? (err->status = DLOCK_UNAVAILABLE)
               : err->status;
}

/* A master that became a replica keeps its connections and may be writable: the new master knows
 * nothing of its grants. OK also if the connection is dead, which the request itself will find. */
static enum dlock_status role_check(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    static const char command[] = "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";
    struct redis_exchange exchange = {.bytes = command,
                                      .len = sizeof command - 1,
                                      .reply_max = ROLE_MAX_BYTES,
                                      .deadline_ns = deadline_ns,
                                      .validate = role_validate};
    int64_t seen_ns = atomic_load(&pipeline->role_ns), now_ns = now(pool);
    enum dlock_status status = DLOCK_OK;

    if (now_ns - seen_ns < ROLE_LASTS_NS ||
        !atomic_compare_exchange_strong(&pipeline->role_ns, &seen_ns, now_ns) ||
        !redis_pipeline_exchange(pipeline, &exchange))
        return DLOCK_OK;
    if (exchange.status != DLOCK_OK)
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE, "not sent: %s", exchange.why);
    status = role_judge(pool, pipeline, exchange.reply, err);
    freeReplyObject(exchange.reply);
    return status;
}

/* *asked: the request was sent, and the exchange has its outcome. */
static enum dlock_status ask_on(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                const struct redis_request *request,
                                struct redis_exchange *exchange, bool *asked,
                                struct dlock_error *err)
{
    enum dlock_status status = guard_check(pool, pipeline, request, err);
    char *bytes = NULL;

    if (status == DLOCK_OK && (request->grants || request->keeps))
        status = role_check(pool, pipeline, exchange->deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    if (now(pool) >= exchange->deadline_ns)
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE, "not sent: no time is left");
    bytes = resp_command_format(request->command, &exchange->len);
    if (bytes == NULL)
        return resp_error_fail(pool->config, err, DLOCK_NOMEM, "no memory for a command");
    exchange->bytes = bytes;
    *asked = redis_pipeline_exchange(pipeline, exchange);
    if (*asked && is_over(exchange))
        atomic_store(&pipeline->dead, true);
    free(bytes);
    return DLOCK_OK;
}

/* OK: the exchange has the outcome. */
static enum dlock_status ask_on_any(struct redis_pool *pool, const struct redis_request *request,
                                    struct redis_exchange *exchange, struct dlock_error *err)
{
    bool asked = false, fresh = false;

    while (!asked && !fresh) {
        struct redis_pipeline *pipeline = NULL;
        enum dlock_status status =
            pipeline_take(pool, request->deadline_ns, &pipeline, &fresh, err);

        if (status != DLOCK_OK)
            return status;
        status = ask_on(pool, pipeline, request, exchange, &asked, err);
        pipeline_put(pool, pipeline);
        if (status != DLOCK_OK)
            return status;
    }
    if (!asked)
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE,
                               "not sent: the server closed the connection");
    return DLOCK_OK;
}

enum dlock_status redis_pool_send_request(struct redis_pool *pool,
                                          const struct redis_request *request, redisReply **out,
                                          struct dlock_error *err)
{
    struct redis_exchange exchange = {
        .reply_max = request->reply_max,
        .deadline_ns = request->deadline_ns,
        .spin = atomic_fetch_add(&pool->asking, 1) < pool->processors / 2 &&
                !atomic_load(&pool->contended),
        .validate = validate,
        .asked = request,
    };
    enum dlock_status status = ask_on_any(pool, request, &exchange, err);

    (void)atomic_fetch_sub(&pool->asking, 1);
    *out = NULL;
    if (status != DLOCK_OK)
        return status;
    *out = exchange.reply;
    if (exchange.status == DLOCK_OK)
        return DLOCK_OK;
    return resp_error_fail(pool->config, err, exchange.status, "%s%s",
                           exchange.status == DLOCK_UNAVAILABLE ? "not sent: " : "", exchange.why);
}
