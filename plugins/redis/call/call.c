/* SPDX-License-Identifier: MIT */
#include "redis/call/call.h"
#include "lib/time.h"
#include "redis/guard/guard.h"
#include "redis/link/config.h"
#include "redis/link/pipeline.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/setup.h"

#include <stdlib.h>
#include <string.h>

/* ---- answers of a cluster that name another server ---- */

/* " 3999 127.0.0.1:6381"; an IPv6 address stands without brackets. */
static bool target_read(struct redis_redirect *out, const char *text)
{
    char *end = NULL;
    const char *colon = strrchr(text, ':');
    unsigned long slot = strtoul(text, &end, 10), port = 0;
    size_t len = 0;

    if (end == text || *end != ' ' || slot >= REDIS_SLOTS || colon == NULL || colon < end + 1)
        return false;
    len = (size_t)(colon - end) - 1;
    port = strtoul(colon + 1, &end, 10);
    text = colon - len;
    if (len > ADDRESS_HOST_MAX || port == 0 || port > UINT16_MAX || *end != '\0')
        return false;
    memcpy(out->to.host, text, len);
    out->to.host[len] = '\0';
    out->to.port = (uint16_t)port;
    out->slot = (unsigned)slot;
    return true;
}

void redis_call_redirect(struct redis_redirect *out, const redisReply *reply)
{
    static const char moved[] = "MOVED ", ask[] = "ASK ", again[] = "TRYAGAIN";

    out->kind = REDIS_REDIRECT_NONE;
    if (reply->type != REDIS_REPLY_ERROR)
        return;
    if (strncmp(reply->str, again, sizeof again - 1) == 0)
        out->kind = REDIS_REDIRECT_TRYAGAIN;
    else if (strncmp(reply->str, moved, sizeof moved - 1) == 0 &&
             target_read(out, reply->str + sizeof moved - 1))
        out->kind = REDIS_REDIRECT_MOVED;
    else if (strncmp(reply->str, ask, sizeof ask - 1) == 0 &&
             target_read(out, reply->str + sizeof ask - 1))
        out->kind = REDIS_REDIRECT_ASK;
}

/* ---- may this server be asked? What the client learned about it, and when it learns that again
 * ---- */

#define VIEW_LASTS_NS      DL_NS_PER_S
#define SETTINGS_LAST_NS   (10 * DL_NS_PER_S)
#define SETTINGS_MAX_BYTES ((size_t)64 * 1024) /* of an answer */

static int64_t now(const struct redis_pool *pool)
{
    return pool->host->now_ns(pool->host->ctx);
}

static bool needs_master(const struct redis_call *call)
{
    return call->kind == REDIS_CALL_GRANTS || call->kind == REDIS_CALL_KEEPS ||
           call->kind == REDIS_CALL_ADOPTS;
}

/* True: a server that may have forgotten leases refuses it. */
static bool is_for_a_new_lease(const struct redis_call *call)
{
    return call->kind == REDIS_CALL_GRANTS || call->kind == REDIS_CALL_ADOPTS;
}

/* A renewal is never BUSY. */
static enum dlock_status refused(const struct resp_config *config, const struct redis_call *call,
                                 const char *text, struct dlock_error *err)
{
    return resp_error_fail(
        config, err, call->kind == REDIS_CALL_ADOPTS ? DLOCK_UNAVAILABLE : DLOCK_BUSY, "%s", text);
}

static enum dlock_status young_refuse(const struct resp_config *config, struct redis_call *call,
                                      int64_t age_ms, struct dlock_error *err)
{
    char text[RESP_FAILOVER_TEXT_SIZE];

    resp_guard_failover_text(text, sizeof text, age_ms, call->outcome.guard_left_ms);
    return refused(config, call, text, err);
}

/* [FO-1] The server may lack grants of the master before it. */
static enum dlock_status failover_check(const struct redis_pool *pool,
                                        struct redis_pipeline *pipeline, struct redis_call *call,
                                        struct dlock_error *err)
{
    int64_t age_ms = 0,
            left_ms = redis_view_left_ms(pipeline->guard, call->slot, now(pool), &age_ms);

    call->sent.guarded[0] = '0'; /* the script looks itself */
    call->outcome.of_name = call->asking && needs_master(call);
    if (call->outcome.of_name) /* [FO-12] as if a look had not seen it */
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE,
                               "not sent: the slot of the name moves to this server");
    if (call->kind != REDIS_CALL_GRANTS)
        return DLOCK_OK;
    if (left_ms == 0)
        return DLOCK_OK;
    call->outcome.guard_left_ms = left_ms;
    return young_refuse(pool->config, call, age_ms, err);
}

/* A server that started a moment ago may have forgotten its grants. */
static enum dlock_status guard_check(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                     struct redis_call *call, struct dlock_error *err)
{
    int64_t left_ns = pipeline->guard_until_ns != 0 ? pipeline->guard_until_ns - now(pool) : 0;
    char text[180];

    if (pipeline->guard->on)
        return failover_check(pool, pipeline, call, err);
    call->sent.guarded[0] = left_ns > 0 ? '1' : '0';
    if (left_ns <= 0 || !is_for_a_new_lease(call))
        return DLOCK_OK;
    call->outcome.guard_left_ms = left_ns / DL_NS_PER_MS + 1;
    resp_guard_text(text, sizeof text, pool->config->restart_guard_ms, call->outcome.guard_left_ms);
    return refused(pool->config, call, text, err);
}

/* ---- rechecks ---- */

static bool is_due(_Atomic int64_t *last_ns, int64_t now_ns, int64_t lasts_ns)
{
    int64_t seen_ns = atomic_load(last_ns);

    return now_ns - seen_ns >= lasts_ns &&
           atomic_compare_exchange_strong(last_ns, &seen_ns, now_ns);
}

static bool settings_validate(const void *asked, redisReply *reply)
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
                                               .validate = settings_validate};
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
    uint64_t caps = 0;
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

static enum dlock_status server_check(struct redis_pool *pool, struct redis_pipeline *pipeline,
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

/* ---- a call as an exchange: its bytes, and what its answer says ---- */

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

static bool answer_validate(const void *asked, redisReply *reply)
{
    const struct redis_call *call = asked;

    if (reply->type == REDIS_REPLY_ERROR)
        return true;
    if (call->sent.number != 0 && !number_cut(reply, call->sent.number))
        return false;
    return call->validate(call, reply);
}

/* After these errors the next connection judges the server again; where the server may move, it
 * may be another one. */
static bool is_over(const struct resp_config *config, const struct redis_exchange *exchange)
{
    static const char *const codes[] = {"READONLY", "NOAUTH",      "FAILOVER OTHER", "MASTERDOWN",
                                        "LOADING",  "CLUSTERDOWN", "NOREPLICAS"};
    size_t count = config->all_keys ? 7 : config->moves ? 6 : 3;

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
    bool body = strcmp(command->words[0], "EVAL") == 0, guarded = pipeline->guard->on;

    if (!call->rechecks)
        return;
    call->sent.script = guarded ? call->with_guard : call->plain;
    command->words[1] = body ? call->sent.script->body : call->sent.script->sha;
    command->lens[1] = body ? call->sent.script->len : strlen(call->sent.script->sha);
    command->count = words;
    redis_view_word(pipeline->guard, call->slot, now(pool), call->sent.seen);
    resp_command_text(command, call->sent.seen);
}

static enum dlock_status exchange_make(const struct redis_pool *pool,
                                       struct redis_pipeline *pipeline, struct redis_call *call,
                                       struct redis_exchange *exchange, struct dlock_error *err)
{
    int words = call->command.count;

    script_choose(pool, pipeline, call, words);
    exchange->bytes = call_format(call, exchange);
    call->command.count = words;
    return exchange->bytes != NULL
               ? DLOCK_OK
               : resp_error_fail(pool->config, err, DLOCK_NOMEM, "no memory for a command");
}

/* NOREPLICAS: the master may be another one by now, or may get its replicas back. */
static void exchange_end(struct redis_pool *pool, struct redis_pipeline *pipeline,
                         const struct redis_exchange *exchange)
{
    if (is_over(pool->config, exchange))
        atomic_store(&pipeline->dead, true);
    else if (exchange->status == DLOCK_OK && resp_error_is(exchange->reply, "NOREPLICAS"))
        redis_pool_doubt(pool);
}

static bool is_other_server(const struct redis_exchange *exchange)
{
    return exchange->status == DLOCK_OK && resp_error_is(exchange->reply, "FAILOVER OTHER");
}

static bool is_unconfirmed(const struct redis_exchange *exchange)
{
    return exchange->status == DLOCK_OK && resp_error_is(exchange->reply, "FAILOVER UNCONFIRMED");
}

static void view_renew(struct redis_pool *pool, struct redis_pipeline *pipeline,
                       int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    int64_t now_ns = now(pool);

    if (redis_view_expired(pipeline->guard, now_ns))
        (void)redis_guard_view(pipeline, true, now_ns + (deadline_ns - now_ns) / 4, &ignored);
}

static enum dlock_status exchange_status(const struct redis_pool *pool,
                                         const struct redis_exchange *exchange,
                                         struct dlock_error *err)
{
    if (exchange->status == DLOCK_OK)
        return DLOCK_OK;
    return resp_error_fail(pool->config, err, exchange->status, "%s%s",
                           exchange->status == DLOCK_UNAVAILABLE ? "not sent: " : "",
                           exchange->why);
}

/* ---- one call ---- */

#define LOCK_WORD 3 /* of the command: the first name's key of the lock */

void redis_call_begin_plain(struct redis_call *call, redis_validate_fn *validate)
{
    call->plain = call->with_guard = call->sent.script = NULL;
    call->kind = REDIS_CALL_READS;
    call->rechecks = call->asking = false;
    call->slot = REDIS_NO_SLOT;
    call->sent.number = 0;
    call->sent.seen[0] = '\0';
    memcpy(call->sent.guarded, "0", sizeof call->sent.guarded);
    call->outcome = (struct redis_call_outcome){.redirect.kind = REDIS_REDIRECT_NONE};
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

static enum redis_call_kind kind_of(enum redis_script_id script)
{
    if (script == REDIS_SCRIPT_ACQUIRE)
        return REDIS_CALL_GRANTS;
    if (script == REDIS_SCRIPT_RENEW || script == REDIS_SCRIPT_KEEP)
        return REDIS_CALL_KEEPS;
    return script == REDIS_SCRIPT_RELEASE ? REDIS_CALL_RELEASES : REDIS_CALL_READS;
}

void redis_call_begin(struct redis_call *call, enum redis_script_id script,
                      const struct resp_keys *keys, size_t n, redis_validate_fn *validate)
{
    bool raw = keys[0].raw != NULL && script != REDIS_SCRIPT_WAITERS;
    size_t per_name = RESP_KEY_COUNT + (raw ? 1 : 0) + (keys[0].all ? RESP_OTHERS_COUNT : 0);

    redis_call_begin_plain(call, validate);
    call->sent.script = call->plain =
        &redis_scripts[raw ? script + REDIS_SCRIPT_RAW_ACQUIRE : script];
    call->with_guard = raw ? NULL : guarded(script);
    call->rechecks = script != REDIS_SCRIPT_INSPECT && script != REDIS_SCRIPT_WAITERS;
    call->kind = kind_of(script);
    call->shown = raw ? LOCK_WORD + n * RESP_KEY_COUNT : LOCK_WORD;
    (void)resp_command_number(call->count, (int64_t)(n * per_name));
    resp_command_text(&call->command, "EVALSHA");
    resp_command_text(&call->command, call->sent.script->sha);
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
    call->sent.script = call->plain = &redis_scripts[script];
    call->rechecks = script == REDIS_SCRIPT_ACQUIRE_MANY;
    if (call->rechecks) {
        call->kind = REDIS_CALL_GRANTS;
        call->with_guard = &redis_scripts[REDIS_SCRIPT_GUARDED_ACQUIRE_MANY];
    }
    call->shown = LOCK_WORD;
    call->expects = n;
    (void)resp_command_number(call->count, (int64_t)n);
    resp_command_text(&call->command, "EVALSHA");
    resp_command_text(&call->command, call->sent.script->sha);
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

static enum dlock_status exchange_once(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                       struct redis_call *call, struct redis_exchange *exchange,
                                       bool *asked, struct dlock_error *err)
{
    enum dlock_status status = exchange_make(pool, pipeline, call, exchange, err);

    if (status != DLOCK_OK)
        return status;
    *asked = redis_pipeline_exchange(pipeline, exchange);
    if (*asked)
        exchange_end(pool, pipeline, exchange);
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
    enum dlock_status status = DLOCK_OK;

    if (call->kind == REDIS_CALL_RELEASES && pipeline->guard->on)
        view_renew(pool, pipeline, exchange->deadline_ns);
    /* Also while nothing is granted: the master may be another one by now. */
    if (needs_master(call))
        status = server_check(pool, pipeline, exchange->deadline_ns, err);
    if (status == DLOCK_OK)
        status = guard_check(pool, pipeline, call, err);
    if (status == DLOCK_OK)
        status = exchange_in_time(pool, pipeline, call, exchange, asked, err);
    if (status != DLOCK_OK || !*asked || !is_unconfirmed(exchange))
        return status;
    freeReplyObject(exchange->reply); /* nothing was done: look again, and ask once more */
    exchange->reply = NULL;
    *asked = false;
    status = redis_guard_view(pipeline, true, exchange->deadline_ns, err);
    if (status == DLOCK_OK)
        status = exchange_in_time(pool, pipeline, call, exchange, asked, err);
    if (!*asked || is_unconfirmed(exchange))
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
        if (asked && !fresh && is_other_server(exchange)) { /* nothing was done */
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
        .validate = answer_validate,
        .asked = call,
    };
    enum dlock_status status = ask_on_any(pool, call, &exchange, err);

    (void)atomic_fetch_sub(&pool->asking, 1);
    *out = NULL;
    if (status != DLOCK_OK)
        return status;
    *out = exchange.reply;
    return exchange_status(pool, &exchange, err);
}

static void body_set(struct redis_call *call)
{
    call->command.words[0] = "EVAL";
    call->command.lens[0] = strlen("EVAL");
    call->command.words[1] = call->sent.script->body;
    call->command.lens[1] = call->sent.script->len;
}

/* What guard.lua says. */
static enum dlock_status young(const struct resp_config *config, struct redis_call *call,
                               const redisReply *reply, struct dlock_error *err)
{
    char *end = NULL;

    call->outcome.guard_left_ms = strtoll(reply->str + strlen("FAILOVER YOUNG "), &end, 10);
    return young_refuse(config, call, strtoll(end, NULL, 10), err);
}

static enum dlock_status call_error(const struct resp_config *config, struct redis_call *call,
                                    const redisReply *reply, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    call->outcome.foreign = resp_error_is(reply, "WRONGTYPE");
    call->outcome.of_name = resp_error_is(reply, "FAILOVER YOUNG ");
    call->outcome.refused = true;
    if (config->all_keys)
        redis_call_redirect(&call->outcome.redirect, reply);
    if (call->outcome.of_name && is_for_a_new_lease(call))
        return young(config, call, reply, err);
    if (call->outcome.foreign)
        return resp_error_wrong_type(config, call->command.words[call->shown],
                                     call->command.lens[call->shown], err);
    status = resp_error_take(config, reply, err);
    call->outcome.lasting = status == DLOCK_UNKNOWN || resp_error_is(reply, "NOPERM") ||
                            resp_error_is(reply, "CROSSSLOT");
    return status;
}

/* The number is the last word of the command. */
static void number_set(struct redis_pool *pool, struct redis_call *call)
{
    if (call->sent.number != 0) /* of an earlier run */
        call->command.count--;
    call->sent.number = number_next(pool);
    resp_command_text(&call->command, resp_command_number(call->sent.digits, call->sent.number));
}

static enum dlock_status error_take(const struct redis_pool *pool, struct redis_call *call,
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

    call->outcome = (struct redis_call_outcome){.redirect.kind = REDIS_REDIRECT_NONE};
    if (call->sent.script != NULL)
        number_set(pool, call);
    status = send_once(pool, call, deadline_ns, out, err);
    if (*out != NULL && call->sent.script != NULL && resp_error_is(*out, "NOSCRIPT")) {
        freeReplyObject(*out);
        body_set(call);
        status = send_once(pool, call, deadline_ns, out, err);
    }
    return error_take(pool, call, status, out, err);
}

/* ---- many calls: one write ---- */

static bool are_pending(const struct redis_call_end *ends, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ends[i].pending)
            return true;
    return false;
}

static void end(struct redis_call_end *end, enum dlock_status status, const struct dlock_error *err)
{
    end->status = status;
    end->pending = false;
    if (err != NULL) {
        (void)snprintf(end->err->origin, sizeof end->err->origin, "%s", err->origin);
        (void)snprintf(end->err->message, sizeof end->err->message, "%s", err->message);
        end->err->status = status;
        end->err->code = err->code;
    }
}

/* Ends the calls that check the server, if it fails the check. */
static void server_check_all(struct redis_pool *pool, struct redis_pipeline *pipeline,
                             struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                             int64_t deadline_ns)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_OK;
    bool checked = false;

    for (size_t i = 0; i < n; i++) {
        if (!ends[i].pending || !needs_master(calls[i]))
            continue;
        if (!checked)
            status = server_check(pool, pipeline, deadline_ns, &err);
        checked = true;
        if (status != DLOCK_OK)
            end(&ends[i], status, &err);
    }
}

/* Ends the calls that this connection may not send. As ask_on does for one. */
static void check_all(struct redis_pool *pool, struct redis_pipeline *pipeline,
                      struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                      int64_t deadline_ns)
{
    bool releases = false;

    for (size_t i = 0; i < n; i++)
        releases = releases || (ends[i].pending && calls[i]->kind == REDIS_CALL_RELEASES);
    if (releases && pipeline->guard->on)
        view_renew(pool, pipeline, deadline_ns);
    server_check_all(pool, pipeline, calls, ends, n, deadline_ns);
    for (size_t i = 0; i < n; i++) {
        enum dlock_status status =
            ends[i].pending ? guard_check(pool, pipeline, calls[i], ends[i].err) : DLOCK_OK;

        if (status != DLOCK_OK)
            end(&ends[i], status, NULL);
    }
}

/* The exchanges of the calls that are pending still; *which: the call of each. */
static size_t exchanges_make(struct redis_pool *pool, struct redis_pipeline *pipeline,
                             struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                             int64_t deadline_ns, struct redis_exchange *exchanges, size_t *which)
{
    bool is_over_time = now(pool) >= deadline_ns;
    size_t made = 0;

    for (size_t i = 0; i < n; i++) {
        struct redis_exchange *exchange = &exchanges[made];
        enum dlock_status status = DLOCK_OK;

        if (!ends[i].pending)
            continue;
        *exchange = (struct redis_exchange){.reply_max = calls[i]->reply_max,
                                            .deadline_ns = deadline_ns,
                                            .validate = answer_validate,
                                            .asked = calls[i]};
        status = is_over_time ? resp_error_fail(pool->config, ends[i].err, DLOCK_UNAVAILABLE,
                                                "not sent: no time is left")
                              : exchange_make(pool, pipeline, calls[i], exchange, ends[i].err);
        if (status != DLOCK_OK)
            end(&ends[i], status, NULL);
        else
            which[made++] = i;
    }
    return made;
}

static bool is_unknown_script(const struct redis_exchange *exchange)
{
    return exchange->status == DLOCK_OK && resp_error_is(exchange->reply, "NOSCRIPT");
}

static void exchange_take(struct redis_pool *pool, struct redis_pipeline *pipeline,
                          struct redis_call *call, struct redis_exchange *exchange,
                          struct redis_call_end *to)
{
    bool again = is_unknown_script(exchange);

    exchange_end(pool, pipeline, exchange);
    to->alone = (again && to->unknown) || is_unconfirmed(exchange) || is_other_server(exchange);
    to->unknown = again;
    if (again || to->alone) { /* the server has done nothing */
        freeReplyObject(exchange->reply);
        to->pending = false;
        return;
    }
    to->reply = exchange->reply;
    end(to, error_take(pool, call, exchange_status(pool, exchange, to->err), &to->reply, to->err),
        NULL);
}

/* Sends what this connection may send. False: it is dead, and nothing was sent. */
static bool ask_all_on(struct redis_pool *pool, struct redis_pipeline *pipeline,
                       struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                       int64_t deadline_ns)
{
    struct redis_exchange exchanges[REDIS_CALLS_MOST];
    size_t which[REDIS_CALLS_MOST], made = 0;
    bool asked = true;

    check_all(pool, pipeline, calls, ends, n, deadline_ns);
    made = exchanges_make(pool, pipeline, calls, ends, n, deadline_ns, exchanges, which);
    if (made > 0)
        asked = redis_pipeline_exchange_all(pipeline, exchanges, made);
    for (size_t i = 0; i < made; i++) {
        if (asked)
            exchange_take(pool, pipeline, calls[which[i]], &exchanges[i], &ends[which[i]]);
        free((char *)exchanges[i].bytes);
    }
    return asked;
}

static void ask_all(struct redis_pool *pool, struct redis_call *const *calls,
                    struct redis_call_end *ends, size_t n, int64_t deadline_ns)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_OK;
    bool fresh = false;

    while (are_pending(ends, n) && !fresh) {
        struct redis_pipeline *pipeline = NULL;

        status = redis_pool_take(pool, deadline_ns, &pipeline, &fresh, &err);
        if (status != DLOCK_OK)
            break;
        (void)ask_all_on(pool, pipeline, calls, ends, n, deadline_ns);
        redis_pool_put(pool, pipeline);
    }
    if (status == DLOCK_OK)
        status = resp_error_fail(pool->config, &err, DLOCK_UNAVAILABLE,
                                 "not sent: the server closed the connection");
    for (size_t i = 0; i < n; i++)
        if (ends[i].pending)
            end(&ends[i], status, &err);
}

/* false: the server knew all scripts. */
static bool bodies_set(struct redis_call *const *calls, struct redis_call_end *ends, size_t n)
{
    const struct resp_script *known[REDIS_SCRIPT_COUNT];
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        size_t at = 0;

        ends[i].pending = ends[i].unknown;
        while (at < count && known[at] != calls[i]->sent.script)
            at++;
        if (ends[i].unknown && at == count) {
            known[count++] = calls[i]->sent.script;
            body_set(calls[i]);
        }
    }
    return count > 0;
}

void redis_call_run_all(struct redis_pool *pool, struct redis_call *const *calls,
                        struct redis_call_end *ends, size_t n, int64_t deadline_ns)
{
    for (size_t i = 0; i < n; i++) {
        calls[i]->outcome = (struct redis_call_outcome){.redirect.kind = REDIS_REDIRECT_NONE};
        number_set(pool, calls[i]);
        ends[i].reply = NULL;
        ends[i].pending = true;
        ends[i].unknown = ends[i].alone = false;
    }
    ask_all(pool, calls, ends, n, deadline_ns);
    if (bodies_set(calls, ends, n))
        ask_all(pool, calls, ends, n, deadline_ns);
    for (size_t i = 0; i < n; i++)
        if (ends[i].alone)
            ends[i].status =
                redis_call_run(pool, calls[i], deadline_ns, &ends[i].reply, ends[i].err);
}
