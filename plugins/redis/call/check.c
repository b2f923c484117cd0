/* SPDX-License-Identifier: MIT */
#include "redis/call/check.h"
#include "lib/time.h"
#include "redis/link/config.h"
#include "redis/link/pipeline.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/setup.h"

#define VIEW_LASTS_NS      DL_NS_PER_S
#define SETTINGS_LAST_NS   (10 * DL_NS_PER_S)
#define SETTINGS_MAX_BYTES ((size_t)64 * 1024) /* of an answer */

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
            left_ms = redis_view_left_ms(pipeline->guard, call->slot, now(pool), &age_ms);

    call->guarded[0] = '0'; /* the script looks itself */
    call->of_name = call->asking && (call->grants || call->keeps);
    if (call->of_name) /* [FO-12] as if a look had not seen it */
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE,
                               "not sent: the slot of the name moves to this server");
    if (!call->grants)
        return DLOCK_OK;
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

    if (pipeline->guard->on)
        return failover_check(pool, pipeline, call, err);
    call->guarded[0] = left_ns > 0 ? '1' : '0';
    if (left_ns <= 0 || !(call->grants || call->adopts))
        return DLOCK_OK;
    call->guard_left_ms = left_ns / DL_NS_PER_MS + 1;
    resp_guard_text(text, sizeof text, pool->config->restart_guard_ms, call->guard_left_ms);
    return refused(pool->config, call, text, err);
}

/* ---- rechecks ---- */

static bool is_due(_Atomic int64_t *last_ns, int64_t now_ns, int64_t lasts_ns)
{
    int64_t seen_ns = atomic_load(last_ns);

    return now_ns - seen_ns >= lasts_ns &&
           atomic_compare_exchange_strong(last_ns, &seen_ns, now_ns);
}

static bool answer_validate(const void *asked, redisReply *reply)
{
    return asked == NULL && reply != NULL;
}

/* Sends the questions of a new connection. False: the connection is dead. */
static bool settings_ask(struct redis_pipeline *pipeline, const struct resp_setup *setup,
                         struct redis_exchange *exchanges, int64_t deadline_ns)
{
    for (size_t i = 0; i < setup->count; i++) {
        size_t from = i > 0 ? setup->ends[i - 1] : 0;

        exchanges[i] = (struct redis_exchange){.bytes = setup->bytes + from,
                                               .len = setup->ends[i] - from,
                                               .reply_max = SETTINGS_MAX_BYTES,
                                               .deadline_ns = deadline_ns,
                                               .validate = answer_validate};
    }
    return redis_pipeline_exchange_all(pipeline, exchanges, setup->count);
}

/* Judges the server as a new connection does. If it fails, this connection is over, and the next
 * one says why. */
static enum dlock_status settings_recheck(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                          int64_t deadline_ns, struct dlock_error *err)
{
    struct redis_exchange exchanges[RESP_SETUP_MAX];
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct resp_setup setup;
    struct resp_info info;
    uint32_t caps = 0;
    enum dlock_status status = DLOCK_OK;

    if (!resp_setup_begin(&setup, &pipeline->config, false, &info))
        status = resp_error_fail(pool->config, err, DLOCK_NOMEM, "no memory for a command");
    else if (settings_ask(pipeline, &setup, exchanges, deadline_ns)) {
        for (size_t i = 0; i < setup.count; i++) {
            if (status == DLOCK_OK)
                status = exchanges[i].status;
            if (status == DLOCK_OK)
                status = resp_setup_take(&setup, exchanges[i].reply, &ignored);
            freeReplyObject(exchanges[i].reply);
        }
        if (status == DLOCK_OK)
            status = resp_info_judge(&info, &pipeline->config, &caps, &ignored);
        if (status == DLOCK_OK)
            redis_pool_caps_take(pool, pipeline, &caps);
        else
            atomic_store(&pipeline->dead, true);
    }
    resp_setup_end(&setup);
    return status == DLOCK_NOMEM ? status : DLOCK_OK;
}

enum dlock_status redis_check_server(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                     int64_t deadline_ns, struct dlock_error *err)
{
    int64_t now_ns = now(pool);
    enum dlock_status status = DLOCK_OK;

    if (is_due(&pipeline->settings_ns, now_ns, SETTINGS_LAST_NS))
        status = settings_recheck(pool, pipeline, deadline_ns, err);
    if (status != DLOCK_OK || !pipeline->guard->on ||
        !is_due(&pipeline->viewed_ns, now_ns, VIEW_LASTS_NS))
        return status;
    return redis_guard_view(pipeline, redis_view_unsettled(pipeline->guard, now_ns), deadline_ns,
                            err);
}
