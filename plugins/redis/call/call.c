/* SPDX-License-Identifier: MIT */
#include "redis/call/call.h"
#include "redis/call/check.h"
#include "redis/call/send.h"
#include "redis/link/config.h"
#include "redis/link/pipeline.h"
#include "resp/error.h"

#include <stdlib.h>
#include <string.h>

#define LOCK_WORD 3 /* of the command: the first name's key of the lock */

void redis_call_begin_plain(struct redis_call *call, redis_validate_fn *validate)
{
    call->script = call->plain = call->with_guard = NULL;
    call->number = 0;
    call->grants = call->keeps = call->adopts = call->releases = false;
    call->rechecks = call->foreign = call->asking = call->of_name = call->refused = call->lasting =
        false;
    call->guard_left_ms = 0;
    call->slot = REDIS_NO_SLOT;
    call->seen[0] = '\0';
    memcpy(call->guarded, "0", sizeof call->guarded);
    call->shown = 0;
    call->reply_max = RESP_REPLY_MAX;
    call->validate = validate;
    call->expects = 0;
    resp_command_begin(&call->command);
}

/* The script with the failover guard before it; NULL: it has none. */
static const struct resp_script *guarded(enum redis_script_id script)
{
    if (script == REDIS_SCRIPT_INSPECT || script == REDIS_SCRIPT_WAITERS)
        return NULL;
    return &redis_scripts[script == REDIS_SCRIPT_KEEP ? REDIS_SCRIPT_GUARDED_KEEP
                                                      : script + REDIS_SCRIPT_GUARDED_ACQUIRE];
}

void redis_call_begin(struct redis_call *call, enum redis_script_id script,
                      const struct resp_keys *keys, size_t n, redis_validate_fn *validate)
{
    bool raw = keys[0].raw != NULL && script != REDIS_SCRIPT_WAITERS;
    size_t per_name = RESP_KEY_COUNT + (raw ? 1 : 0) + (keys[0].all ? RESP_OTHERS_COUNT : 0);

    redis_call_begin_plain(call, validate);
    call->script = call->plain = &redis_scripts[raw ? script + REDIS_SCRIPT_RAW_ACQUIRE : script];
    call->with_guard = raw ? NULL : guarded(script);
    call->rechecks = script != REDIS_SCRIPT_INSPECT && script != REDIS_SCRIPT_WAITERS;
    call->grants = script == REDIS_SCRIPT_ACQUIRE;
    call->keeps = script == REDIS_SCRIPT_RENEW || script == REDIS_SCRIPT_KEEP;
    call->releases = script == REDIS_SCRIPT_RELEASE;
    call->shown = raw ? LOCK_WORD + n * RESP_KEY_COUNT : LOCK_WORD;
    (void)resp_command_number(call->count, (int64_t)(n * per_name));
    resp_command_text(&call->command, "EVALSHA");
    resp_command_text(&call->command, call->script->sha);
    resp_command_text(&call->command, call->count);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < RESP_KEY_COUNT; k++)
            resp_command_add(&call->command, keys[i].bytes[k], keys[i].lens[k]);
    for (size_t i = 0; raw && i < n; i++)
        resp_command_add(&call->command, keys[i].raw, keys[i].raw_len);
    for (size_t i = 0; keys[0].all && i < RESP_OTHERS_COUNT; i++)
        resp_command_add(&call->command, call->others[i],
                         resp_keys_other(call->others[i], &keys[0], i));
}

void redis_call_begin_many(struct redis_call *call, enum redis_script_id script,
                           const struct resp_keys *const *keys, size_t n,
                           redis_validate_fn *validate)
{
    redis_call_begin_plain(call, validate);
    call->script = call->plain = &redis_scripts[script];
    call->grants = call->rechecks = script == REDIS_SCRIPT_ACQUIRE_MANY;
    if (call->grants)
        call->with_guard = &redis_scripts[REDIS_SCRIPT_GUARDED_ACQUIRE_MANY];
    call->shown = LOCK_WORD;
    call->expects = n;
    (void)resp_command_number(call->count, (int64_t)n);
    resp_command_text(&call->command, "EVALSHA");
    resp_command_text(&call->command, call->script->sha);
    resp_command_text(&call->command, call->count);
    for (size_t i = 0; i < n; i++)
        resp_command_add(&call->command, keys[i]->bytes[0], keys[i]->lens[0]);
}

static uint32_t number_next(struct redis_pool *pool)
{
    uint32_t number = 0;

    while (number == 0)
        number = atomic_fetch_add(&pool->numbers, 1) + 1;
    return number;
}

static int64_t now(const struct redis_pool *pool)
{
    return pool->host->now_ns(pool->host->ctx);
}

static enum dlock_status exchange_once(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                       struct redis_call *call, struct redis_exchange *exchange,
                                       bool *asked, struct dlock_error *err)
{
    enum dlock_status status = redis_send_make(pool, pipeline, call, exchange, err);

    if (status != DLOCK_OK)
        return status;
    *asked = redis_pipeline_exchange(pipeline, exchange);
    if (*asked)
        redis_send_end(pool, pipeline, exchange);
    free((char *)exchange->bytes);
    return DLOCK_OK;
}

static enum dlock_status exchange_in_time(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                          struct redis_call *call, struct redis_exchange *exchange,
                                          bool *asked, struct dlock_error *err)
{
    if (now(pool) >= exchange->deadline_ns)
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE, "not sent: no time is left");
    return exchange_once(pool, pipeline, call, exchange, asked, err);
}

/* *asked: the request was sent, and the exchange has its outcome. */
static enum dlock_status ask_on(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                struct redis_call *call, struct redis_exchange *exchange,
                                bool *asked, struct dlock_error *err)
{
    bool checks = call->grants || call->keeps;
    enum dlock_status status = DLOCK_OK;

    if (call->releases && pipeline->guard->on)
        redis_send_release_prepare(pool, pipeline, exchange->deadline_ns);
    /* Also while nothing is granted: the master may be another one by now. */
    if (checks)
        status = redis_check_server(pool, pipeline, exchange->deadline_ns, err);
    if (status == DLOCK_OK)
        status = redis_check_guard(pool, pipeline, call, err);
    if (status == DLOCK_OK)
        status = exchange_in_time(pool, pipeline, call, exchange, asked, err);
    if (status != DLOCK_OK || !*asked || !redis_send_is_unconfirmed(exchange))
        return status;
    freeReplyObject(exchange->reply); /* nothing was done: look again, and ask once more */
    exchange->reply = NULL;
    *asked = false;
    status = redis_guard_view(pipeline, true, exchange->deadline_ns, err);
    if (status == DLOCK_OK)
        status = exchange_in_time(pool, pipeline, call, exchange, asked, err);
    if (!*asked || redis_send_is_unconfirmed(exchange))
        redis_pool_doubt(pool);
    return status;
}

/* OK: the exchange has the outcome. */
static enum dlock_status ask_on_any(struct redis_pool *pool, struct redis_call *call,
                                    struct redis_exchange *exchange, struct dlock_error *err)
{
    bool asked = false, fresh = false;

    while (!asked && !fresh) {
        struct redis_pipeline *pipeline = NULL;
        enum dlock_status status =
            redis_pool_take(pool, exchange->deadline_ns, &pipeline, &fresh, err);

        if (status != DLOCK_OK)
            return status;
        status = ask_on(pool, pipeline, call, exchange, &asked, err);
        redis_pool_put(pool, pipeline);
        if (status != DLOCK_OK)
            return status;
        if (asked && !fresh && redis_send_is_other(exchange)) { /* nothing was done */
            freeReplyObject(exchange->reply);
            asked = false;
        }
    }
    if (!asked)
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE,
                               "not sent: the server closed the connection");
    return DLOCK_OK;
}

/* *out: NULL unless OK. */
static enum dlock_status send_once(struct redis_pool *pool, struct redis_call *call,
                                   int64_t deadline_ns, redisReply **out, struct dlock_error *err)
{
    struct redis_exchange exchange = {
        .reply_max = call->reply_max,
        .deadline_ns = deadline_ns,
        .spin = atomic_fetch_add(&pool->asking, 1) < pool->processors / 2 &&
                !atomic_load(&pool->contended),
        .validate = redis_send_validate,
        .asked = call,
    };
    enum dlock_status status = ask_on_any(pool, call, &exchange, err);

    (void)atomic_fetch_sub(&pool->asking, 1);
    *out = NULL;
    if (status != DLOCK_OK)
        return status;
    *out = exchange.reply;
    return redis_send_status(pool, &exchange, err);
}

void redis_call_body_set(struct redis_call *call)
{
    call->command.words[0] = "EVAL";
    call->command.lens[0] = strlen("EVAL");
    call->command.words[1] = call->script->body;
    call->command.lens[1] = call->script->len;
}

/* What guard.lua says. */
static enum dlock_status young(const struct resp_config *config, struct redis_call *call,
                               const redisReply *reply, struct dlock_error *err)
{
    char *end = NULL;

    call->guard_left_ms = strtoll(reply->str + strlen("FAILOVER YOUNG "), &end, 10);
    return redis_check_young(config, call, strtoll(end, NULL, 10), err);
}

static enum dlock_status call_error(const struct resp_config *config, struct redis_call *call,
                                    const redisReply *reply, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    call->foreign = resp_error_is(reply, "WRONGTYPE");
    call->of_name = resp_error_is(reply, "FAILOVER YOUNG ");
    call->refused = true;
    if (config->all_keys)
        redis_redirect_read(&call->redirect, reply);
    if (call->of_name && (call->grants || call->adopts))
        return young(config, call, reply, err);
    if (call->foreign)
        return resp_error_wrong_type(config, call->command.words[call->shown],
                                     call->command.lens[call->shown], err);
    status = resp_error_take(config, reply, err);
    call->lasting = status == DLOCK_UNKNOWN || resp_error_is(reply, "NOPERM") ||
                    resp_error_is(reply, "CROSSSLOT");
    return status;
}

/* The number is the last word of the command. */
void redis_call_number(struct redis_pool *pool, struct redis_call *call)
{
    if (call->number != 0) /* of an earlier run */
        call->command.count--;
    call->number = number_next(pool);
    resp_command_text(&call->command, resp_command_number(call->digits, call->number));
}

enum dlock_status redis_call_error_take(const struct redis_pool *pool, struct redis_call *call,
                                        enum dlock_status status, redisReply **reply,
                                        struct dlock_error *err)
{
    if (*reply == NULL || (*reply)->type != REDIS_REPLY_ERROR)
        return status;
    status = call_error(pool->config, call, *reply, err);
    freeReplyObject(*reply);
    *reply = NULL;
    return status;
}

enum dlock_status redis_call_run(struct redis_pool *pool, struct redis_call *call,
                                 int64_t deadline_ns, redisReply **out, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    call->redirect.kind = REDIS_REDIRECT_NONE;
    call->of_name = call->refused = call->lasting = false;
    if (call->script != NULL)
        redis_call_number(pool, call);
    status = send_once(pool, call, deadline_ns, out, err);
    if (*out != NULL && call->script != NULL && resp_error_is(*out, "NOSCRIPT")) {
        freeReplyObject(*out);
        redis_call_body_set(call);
        status = send_once(pool, call, deadline_ns, out, err);
    }
    return redis_call_error_take(pool, call, status, out, err);
}
