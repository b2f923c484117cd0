/* SPDX-License-Identifier: MIT */
#include "call.h"
#include "lib/time.h"
#include "pipeline.h"
#include "resp/error.h"
#include "resp/guard.h"

#include <stdlib.h>
#include <string.h>

#define ROLE_LASTS_NS  DL_NS_PER_S
#define ROLE_MAX_BYTES ((size_t)64 * 1024)

#define LOCK_WORD 3 /* of the command: the first name's key of the lock */

void redis_call_begin_plain(struct redis_call *call, redis_validate_fn *validate)
{
    call->script = NULL;
    call->number = 0;
    call->grants = call->keeps = call->foreign = false;
    call->guard_left_ms = 0;
    memcpy(call->guarded, "0", sizeof call->guarded);
    call->shown = 0;
    call->reply_max = RESP_REPLY_MAX;
    call->validate = validate;
    call->expects = 0;
    resp_command_begin(&call->command);
}

void redis_call_begin(struct redis_call *call, enum redis_script_id script,
                      const struct resp_keys *keys, size_t n, redis_validate_fn *validate)
{
    bool raw = keys[0].raw != NULL;

    redis_call_begin_plain(call, validate);
    call->script = &redis_scripts[raw ? script + REDIS_SCRIPT_RAW_ACQUIRE : script];
    call->grants = script == REDIS_SCRIPT_ACQUIRE;
    call->keeps = script == REDIS_SCRIPT_RENEW;
    call->shown = raw ? LOCK_WORD + n * RESP_KEY_COUNT : LOCK_WORD;
    (void)resp_command_number(call->count,
                              (int64_t)(n * (raw ? RESP_KEY_COUNT + 1 : RESP_KEY_COUNT)));
    resp_command_text(&call->command, "EVALSHA");
    resp_command_text(&call->command, call->script->sha);
    resp_command_text(&call->command, call->count);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < RESP_KEY_COUNT; k++)
            resp_command_add(&call->command, keys[i].bytes[k], keys[i].lens[k]);
    for (size_t i = 0; raw && i < n; i++)
        resp_command_add(&call->command, keys[i].raw, keys[i].raw_len);
}

/* ---- the answer ---- */

static uint32_t number_next(struct redis_pool *pool)
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
    const struct redis_call *call = asked;

    if (reply->type == REDIS_REPLY_ERROR)
        return true;
    if (call->number != 0 && !number_cut(reply, call->number))
        return false;
    return call->validate(call, reply);
}

/* ---- before the request ---- */

static int64_t now(const struct redis_pool *pool)
{
    return pool->host->now_ns(pool->host->ctx);
}

/* A server that started a moment ago may have forgotten its grants. */
static enum dlock_status guard_check(const struct redis_pool *pool,
                                     const struct redis_pipeline *pipeline, struct redis_call *call,
                                     struct dlock_error *err)
{
    int64_t left_ns = pipeline->guard_until_ns != 0 ? pipeline->guard_until_ns - now(pool) : 0;
    char text[180];

    call->guarded[0] = left_ns > 0 ? '1' : '0';
    if (left_ns <= 0 || !call->grants)
        return DLOCK_OK;
    call->guard_left_ms = left_ns / DL_NS_PER_MS + 1;
    resp_guard_text(text, sizeof text, pool->config->restart_guard_ms, call->guard_left_ms);
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

/* ---- the exchange ---- */

/* After READONLY or NOAUTH the next connection judges the server again. */
static bool is_over(const struct redis_exchange *exchange)
{
    return exchange->status == DLOCK_OK &&
           (resp_error_is(exchange->reply, "READONLY") || resp_error_is(exchange->reply, "NOAUTH"));
}

/* *asked: the request was sent, and the exchange has its outcome. */
static enum dlock_status ask_on(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                struct redis_call *call, struct redis_exchange *exchange,
                                bool *asked, struct dlock_error *err)
{
    enum dlock_status status = guard_check(pool, pipeline, call, err);
    char *bytes = NULL;

    if (status == DLOCK_OK && (call->grants || call->keeps))
        status = role_check(pool, pipeline, exchange->deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    if (now(pool) >= exchange->deadline_ns)
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE, "not sent: no time is left");
    bytes = resp_command_format(&call->command, &exchange->len);
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
        .validate = validate,
        .asked = call,
    };
    enum dlock_status status = ask_on_any(pool, call, &exchange, err);

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

/* A script that the server does not know has not run: to send it again is safe. */
static void body_set(struct redis_call *call)
{
    call->command.words[0] = "EVAL";
    call->command.lens[0] = strlen("EVAL");
    call->command.words[1] = call->script->body;
    call->command.lens[1] = call->script->len;
}

static enum dlock_status call_error(const struct resp_config *config, struct redis_call *call,
                                    const redisReply *reply, struct dlock_error *err)
{
    call->foreign = resp_error_is(reply, "WRONGTYPE");
    if (call->foreign)
        return resp_error_wrong_type(config, call->command.words[call->shown],
                                     call->command.lens[call->shown], err);
    return resp_error_take(config, reply, err);
}

enum dlock_status redis_call_run(struct redis_pool *pool, struct redis_call *call,
                                 int64_t deadline_ns, redisReply **out, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (call->script != NULL) {
        call->number = number_next(pool);
        resp_command_text(&call->command, resp_command_number(call->digits, call->number));
    }
    status = send_once(pool, call, deadline_ns, out, err);
    if (*out != NULL && call->script != NULL && resp_error_is(*out, "NOSCRIPT")) {
        freeReplyObject(*out);
        body_set(call);
        status = send_once(pool, call, deadline_ns, out, err);
    }
    if (*out != NULL && (*out)->type == REDIS_REPLY_ERROR) {
        status = call_error(pool->config, call, *out, err);
        freeReplyObject(*out);
        *out = NULL;
    }
    return status;
}
