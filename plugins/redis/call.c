/* SPDX-License-Identifier: MIT */
#include "call.h"
#include "config.h"
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
    call->script = call->plain = call->with_guard = NULL;
    call->number = 0;
    call->grants = call->keeps = call->releases = call->foreign = call->asking = false;
    call->guard_left_ms = call->ttl_ms = 0;
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
    if (!raw)
        call->with_guard = guarded(script);
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

static enum dlock_status busy_after_failover(const struct resp_config *config,
                                             struct redis_call *call, int64_t age_ms,
                                             struct dlock_error *err)
{
    char text[RESP_FAILOVER_TEXT_SIZE];

    resp_guard_failover_text(text, sizeof text, age_ms, call->guard_left_ms);
    return resp_error_fail(config, err, DLOCK_BUSY, "%s", text);
}

/* [FO-1] The server may lack grants of the master before it. */
static enum dlock_status failover_check(const struct redis_pool *pool,
                                        struct redis_pipeline *pipeline, struct redis_call *call,
                                        struct dlock_error *err)
{
    int64_t age_ms = 0,
            left_ms = redis_view_left_ms(&pipeline->guard, call->slot, now(pool), &age_ms);

    call->guarded[0] = '0';                            /* the script looks itself */
    if (call->asking && (call->grants || call->keeps)) /* [FO-12] as if a look had not seen it */
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
    return busy_after_failover(pool->config, call, age_ms, err);
}

/* A server that started a moment ago may have forgotten its grants. */
static enum dlock_status guard_check(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                     struct redis_call *call, struct dlock_error *err)
{
    int64_t left_ns = pipeline->guard_until_ns != 0 ? pipeline->guard_until_ns - now(pool) : 0;
    char text[180];

    if (pipeline->guard.on)
        return failover_check(pool, pipeline, call, err);
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

/* ---- the exchange ---- */

/* After these errors the next connection judges the server again; where the server may move, it
 * may be another one. */
static bool is_over(const struct resp_config *config, const struct redis_exchange *exchange)
{
    static const char *const codes[] = {"READONLY",   "NOAUTH",  "FAILOVER OTHER", "NOREPLICAS",
                                        "MASTERDOWN", "LOADING", "CLUSTERDOWN"};
    size_t count = config->moves ? sizeof codes / sizeof codes[0] : 3;

    for (size_t i = 0; exchange->status == DLOCK_OK && i < count; i++)
        if (resp_error_is(exchange->reply, codes[i]))
            return true;
    return false;
}

/* NULL: no memory. */
static char *call_format(const struct redis_call *call, struct redis_exchange *exchange)
{
    static const char asking[] = "*1\r\n$6\r\nASKING\r\n";
    const size_t before = sizeof asking - 1;
    char *bytes = resp_command_format(&call->command, &exchange->len), *both = NULL;

    if (bytes == NULL || !call->asking)
        return bytes;
    both = malloc(before + exchange->len);
    if (both != NULL) {
        memcpy(both, asking, before);
        memcpy(both + before, bytes, exchange->len);
        exchange->len += before;
        exchange->before = 1;
    }
    free(bytes);
    return both;
}

/* The script for this connection, and what the connection knows. words: of the command without it.
 */
static void script_choose(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                          struct redis_call *call, int words)
{
    struct resp_command *command = &call->command;
    bool body = strcmp(command->words[0], "EVAL") == 0, guarded = pipeline->guard.on;

    if (call->with_guard == NULL)
        return;
    call->script = guarded ? call->with_guard : call->plain;
    command->words[1] = body ? call->script->body : call->script->sha;
    command->lens[1] = body ? call->script->len : strlen(call->script->sha);
    command->count = words;
    call->seen[0] = '\0';
    if (!guarded)
        return;
    redis_view_word(&pipeline->guard, call->slot, now(pool), call->seen);
    resp_command_text(command, call->seen);
}

static enum dlock_status exchange_once(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                       struct redis_call *call, struct redis_exchange *exchange,
                                       bool *asked, struct dlock_error *err)
{
    int words = call->command.count;
    char *bytes = NULL;

    script_choose(pool, pipeline, call, words);
    bytes = call_format(call, exchange);
    call->command.count = words;
    if (bytes == NULL)
        return resp_error_fail(pool->config, err, DLOCK_NOMEM, "no memory for a command");
    exchange->bytes = bytes;
    *asked = redis_pipeline_exchange(pipeline, exchange);
    if (*asked && is_over(pool->config, exchange))
        atomic_store(&pipeline->dead, true);
    free(bytes);
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

/* The replicas had not acknowledged what this connection saw last. */
static bool is_unconfirmed(const struct redis_exchange *exchange)
{
    return exchange->status == DLOCK_OK && resp_error_is(exchange->reply, "FAILOVER UNCONFIRMED");
}

/* A lock that was held for longer than a look counts: without a new look nothing would be passed
 * on. The release itself needs none, and goes on without. */
static void release_prepare(struct redis_pool *pool, struct redis_pipeline *pipeline,
                            int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    int64_t now_ns = now(pool);

    if (redis_view_expired(&pipeline->guard, now_ns))
        (void)redis_guard_view(pool, pipeline, true, now_ns + (deadline_ns - now_ns) / 4, &ignored);
}

/* *asked: the request was sent, and the exchange has its outcome. */
static enum dlock_status ask_on(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                struct redis_call *call, struct redis_exchange *exchange,
                                bool *asked, struct dlock_error *err)
{
    bool checks = call->grants || call->keeps, has_guard = pipeline->guard.on;
    enum dlock_status status = DLOCK_OK;

    if (call->releases && has_guard)
        release_prepare(pool, pipeline, exchange->deadline_ns);
    /* Also while nothing is granted: the master may be another one by now. */
    if (checks && has_guard)
        status = role_check(pool, pipeline, exchange->deadline_ns, err);
    if (status == DLOCK_OK)
        status = guard_check(pool, pipeline, call, err);
    if (status == DLOCK_OK && checks && !has_guard)
        status = role_check(pool, pipeline, exchange->deadline_ns, err);
    if (status == DLOCK_OK)
        status = exchange_in_time(pool, pipeline, call, exchange, asked, err);
    if (status != DLOCK_OK || !*asked || !is_unconfirmed(exchange))
        return status;
    freeReplyObject(exchange->reply); /* nothing was done: look again, and ask once more */
    exchange->reply = NULL;
    *asked = false;
    status = redis_guard_view(pool, pipeline, true, exchange->deadline_ns, err);
    return status == DLOCK_OK ? exchange_in_time(pool, pipeline, call, exchange, asked, err)
                              : status;
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

/* What guard.lua says. */
static enum dlock_status young(const struct resp_config *config, struct redis_call *call,
                               const redisReply *reply, struct dlock_error *err)
{
    char *end = NULL;

    call->guard_left_ms = strtoll(reply->str + strlen("FAILOVER YOUNG "), &end, 10);
    return busy_after_failover(config, call, strtoll(end, NULL, 10), err);
}

static enum dlock_status call_error(const struct resp_config *config, struct redis_call *call,
                                    const redisReply *reply, struct dlock_error *err)
{
    call->foreign = resp_error_is(reply, "WRONGTYPE");
    if (config->all_keys)
        redis_redirect_read(&call->redirect, reply);
    if (resp_error_is(reply, "FAILOVER YOUNG ") && call->grants)
        return young(config, call, reply, err);
    if (call->foreign)
        return resp_error_wrong_type(config, call->command.words[call->shown],
                                     call->command.lens[call->shown], err);
    return resp_error_take(config, reply, err);
}

/* The last word of the command. */
static void number_set(struct redis_call *call, uint32_t number)
{
    if (call->number != 0) /* of an earlier run */
        call->command.count--;
    call->number = number;
    resp_command_text(&call->command, resp_command_number(call->digits, number));
}

enum dlock_status redis_call_run(struct redis_pool *pool, struct redis_call *call,
                                 int64_t deadline_ns, redisReply **out, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    call->redirect.kind = REDIS_REDIRECT_NONE;
    if (call->script != NULL)
        number_set(call, number_next(pool));
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
