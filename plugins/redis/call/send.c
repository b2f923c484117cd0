/* SPDX-License-Identifier: MIT */
#include "redis/call/send.h"
#include "redis/guard/view.h"
#include "redis/link/pipeline.h"
#include "resp/error.h"

#include <stdlib.h>
#include <string.h>

static int64_t now(const struct redis_pool *pool)
{
    return pool->host->now_ns(pool->host->ctx);
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

bool redis_send_validate(const void *asked, redisReply *reply)
{
    const struct redis_call *call = asked;

    if (reply->type == REDIS_REPLY_ERROR)
        return true;
    if (call->number != 0 && !number_cut(reply, call->number))
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
    call->script = guarded ? call->with_guard : call->plain;
    command->words[1] = body ? call->script->body : call->script->sha;
    command->lens[1] = body ? call->script->len : strlen(call->script->sha);
    command->count = words;
    redis_view_word(pipeline->guard, call->slot, now(pool), call->seen);
    resp_command_text(command, call->seen);
}

enum dlock_status redis_send_make(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                  struct redis_call *call, struct redis_exchange *exchange,
                                  struct dlock_error *err)
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
void redis_send_end(struct redis_pool *pool, struct redis_pipeline *pipeline,
                    const struct redis_exchange *exchange)
{
    if (is_over(pool->config, exchange))
        atomic_store(&pipeline->dead, true);
    else if (exchange->status == DLOCK_OK && resp_error_is(exchange->reply, "NOREPLICAS"))
        redis_pool_doubt(pool);
}

bool redis_send_is_other(const struct redis_exchange *exchange)
{
    return exchange->status == DLOCK_OK && resp_error_is(exchange->reply, "FAILOVER OTHER");
}

bool redis_send_is_unconfirmed(const struct redis_exchange *exchange)
{
    return exchange->status == DLOCK_OK && resp_error_is(exchange->reply, "FAILOVER UNCONFIRMED");
}

void redis_send_release_prepare(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    int64_t now_ns = now(pool);

    if (redis_view_expired(pipeline->guard, now_ns))
        (void)redis_guard_view(pipeline, true, now_ns + (deadline_ns - now_ns) / 4, &ignored);
}

enum dlock_status redis_send_status(const struct redis_pool *pool,
                                    const struct redis_exchange *exchange, struct dlock_error *err)
{
    if (exchange->status == DLOCK_OK)
        return DLOCK_OK;
    return resp_error_fail(pool->config, err, exchange->status, "%s%s",
                           exchange->status == DLOCK_UNAVAILABLE ? "not sent: " : "",
                           exchange->why);
}
