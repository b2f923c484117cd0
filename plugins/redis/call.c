/* SPDX-License-Identifier: MIT */
#include "call.h"
#include "resp/error.h"

#include <string.h>

#define LOCK_WORD 3 /* of the command: the first name's key of the lock */

void redis_call_begin(struct redis_call *call, enum redis_script_id script,
                      const struct resp_keys *keys, size_t n, redis_validate_fn *validate)
{
    bool raw = keys[0].raw != NULL;

    call->script = &redis_scripts[raw ? script + REDIS_SCRIPT_RAW_ACQUIRE : script];
    call->reply_max = RESP_REPLY_MAX;
    call->validate = validate;
    call->expects = 0;
    call->foreign = false;
    call->grants = script == REDIS_SCRIPT_ACQUIRE;
    call->keeps = script == REDIS_SCRIPT_RENEW;
    call->guard_left_ms = 0;
    call->shown = raw ? LOCK_WORD + n * RESP_KEY_COUNT : LOCK_WORD;
    memcpy(call->guarded, "0", sizeof call->guarded);
    (void)resp_command_number(call->count,
                              (int64_t)(n * (raw ? RESP_KEY_COUNT + 1 : RESP_KEY_COUNT)));
    resp_command_begin(&call->command);
    resp_command_text(&call->command, "EVALSHA");
    resp_command_text(&call->command, call->script->sha);
    resp_command_text(&call->command, call->count);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < RESP_KEY_COUNT; k++)
            resp_command_add(&call->command, keys[i].bytes[k], keys[i].lens[k]);
    for (size_t i = 0; raw && i < n; i++)
        resp_command_add(&call->command, keys[i].raw, keys[i].raw_len);
}

/* A script that the server does not know has not run: to send it again is safe. */
static void send_body(struct redis_call *call)
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
    const struct redis_request request = {
        .command = &call->command,
        .number = redis_pool_number(pool),
        .reply_max = call->reply_max,
        .deadline_ns = deadline_ns,
        .grants = call->grants,
        .keeps = call->keeps,
        .guarded = call->guarded,
        .guard_left_ms = &call->guard_left_ms,
        .validate = call->validate,
        .expects = call->expects,
    };
    enum dlock_status status = DLOCK_INTERNAL;

    resp_command_text(&call->command, resp_command_number(call->number, request.number));
    status = redis_pool_send_request(pool, &request, out, err);
    if (status == DLOCK_OK && resp_error_is(*out, "NOSCRIPT")) {
        freeReplyObject(*out);
        send_body(call);
        status = redis_pool_send_request(pool, &request, out, err);
    }
    if (status == DLOCK_OK && (*out)->type == REDIS_REPLY_ERROR) {
        status = call_error(pool->config, call, *out, err);
        freeReplyObject(*out);
        *out = NULL;
    }
    return status;
}
