/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "config.h"
#include "lib/time.h"
#include "pipeline.h"
#include "resp/error.h"
#include "resp/guard.h"

#include <string.h>

#define ROLE_LASTS_NS  DL_NS_PER_S
#define ROLE_MAX_BYTES ((size_t)64 * 1024)

static int64_t now(const struct redis_pool *pool)
{
    return pool->host->now_ns(pool->host->ctx);
}

/* A renewal is never BUSY. */
static enum dlock_status refused(const struct resp_config *config, const struct redis_call *call,
                                 const char *text, struct dlock_error *err)
{
    return resp_error_fail(config, err, call->adopts ? DLOCK_UNAVAILABLE : DLOCK_BUSY, "%s", text);
}

enum dlock_status redis_check_young(const struct resp_config *config, struct redis_call *call,
                                    int64_t age_ms, struct dlock_error *err)
{
    char text[RESP_FAILOVER_TEXT_SIZE];

    resp_guard_failover_text(text, sizeof text, age_ms, call->guard_left_ms);
    return refused(config, call, text, err);
}

/* [FO-1] The server may lack grants of the master before it. */
static enum dlock_status failover_check(const struct redis_pool *pool,
                                        struct redis_pipeline *pipeline, struct redis_call *call,
                                        struct dlock_error *err)
{
    int64_t age_ms = 0,
            left_ms = redis_view_left_ms(&pipeline->guard, call->slot, now(pool), &age_ms);

    call->guarded[0] = '0'; /* the script looks itself */
    call->of_name = call->asking && (call->grants || call->keeps);
    if (call->of_name) /* [FO-12] as if a look had not seen it */
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE,
                               "not sent: the slot of the name moves to this server");
    if (!call->grants)
        return DLOCK_OK;
    if (call->ttl_ms > pool->config->restart_guard_ms) /* [FO-4], of a connection that is new */
        return resp_guard_judge_ttl(REDIS_ORIGIN, pool->config->restart_guard_ms, call->ttl_ms,
                                    err);
    if (left_ms == 0)
        return DLOCK_OK;
    call->guard_left_ms = left_ms;
    return redis_check_young(pool->config, call, age_ms, err);
}

/* A server that started a moment ago may have forgotten its grants. */
enum dlock_status redis_check_guard(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                    struct redis_call *call, struct dlock_error *err)
{
    int64_t left_ns = pipeline->guard_until_ns != 0 ? pipeline->guard_until_ns - now(pool) : 0;
    char text[180];

    if (pipeline->guard.on)
        return failover_check(pool, pipeline, call, err);
    call->guarded[0] = left_ns > 0 ? '1' : '0';
    if (left_ns <= 0 || !(call->grants || call->adopts))
        return DLOCK_OK;
    call->guard_left_ms = left_ns / DL_NS_PER_MS + 1;
    resp_guard_text(text, sizeof text, pool->config->restart_guard_ms, call->guard_left_ms);
    return refused(pool->config, call, text, err);
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
    if (strcmp(server_info.role, "master") == 0 &&
        (server_info.replicas == 0 || pool->config->failover == RESP_FAILOVER_UNSAFE ||
         pool->config->raw))
        return DLOCK_OK;
    atomic_store(&pipeline->dead, true);
    if (strcmp(server_info.role, "master") == 0) /* the next connection has the failover guard */
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE,
                               "not sent: the server has a replica now");
    if (reply->type != REDIS_REPLY_ERROR)
        return resp_error_fail(
            pool->config, err, pool->config->moves ? DLOCK_UNAVAILABLE : DLOCK_CONFIG,
            "became a replica (role %s): take locks at the master", server_info.role);
    return resp_error_take(pool->config, reply, err) == DLOCK_UNKNOWN
               ? (err->status = DLOCK_UNAVAILABLE)
               : err->status;
}

/* A master that became a replica keeps its connections and may be writable: the new master knows
 * nothing of its grants. OK also if the connection is dead, which the request itself will find. */
enum dlock_status redis_check_role(struct redis_pool *pool, struct redis_pipeline *pipeline,
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
        !atomic_compare_exchange_strong(&pipeline->role_ns, &seen_ns, now_ns))
        return DLOCK_OK;
    if (pipeline->guard.on)
        return redis_guard_view(pool, pipeline, redis_view_unsettled(&pipeline->guard, now_ns),
                                deadline_ns, err);
    if (!redis_pipeline_exchange(pipeline, &exchange))
        return DLOCK_OK;
    if (exchange.status != DLOCK_OK)
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE, "not sent: %s", exchange.why);
    status = role_judge(pool, pipeline, exchange.reply, err);
    freeReplyObject(exchange.reply);
    return status;
}
