/* SPDX-License-Identifier: MIT */
/* call.h - runs one script in the server. */
#ifndef REDIS_CALL_H
#define REDIS_CALL_H

#include "pool.h"
#include "resp/keys.h"
#include "script.h"

/* The run of a script, or of its variant for key=raw. redis_call_begin begins its command; the keys
 * must not move until redis_call_run. The caller adds the arguments with resp_command_add. */
struct redis_call {
    const struct resp_script *script;
    char count[RESP_DIGITS];
    char number[RESP_DIGITS];    /* of the request: the last argument, added by redis_call_run */
    char guarded[2];             /* see pool.h: an argument of scripts that pass on */
    bool grants, keeps;          /* see pool.h */
    int64_t guard_left_ms;       /* set by redis_call_run with BUSY, if `grants` */
    size_t shown;                /* the word of the command that errors name as the key */
    size_t reply_max;            /* bytes of the answer; RESP_REPLY_MAX */
    redis_validate_fn *validate; /* of the answer, see pool.h */
    size_t expects;              /* for validate */
    bool foreign;                /* set by redis_call_run: a key has another type */
    struct resp_command command;
};
void redis_call_begin(struct redis_call *call, enum redis_script_id script,
                      const struct resp_keys *keys, size_t n, redis_validate_fn *validate);

/*
 * Sends the command and waits for the answer. OK: *out is an answer that is no error. UNKNOWN,
 * UNAVAILABLE, BUSY, PROTOCOL: as redis_pool_send_request; or the status that the server's error
 * means. If the server does not know the script, the script is sent.
 */
enum dlock_status redis_call_run(struct redis_pool *pool, struct redis_call *call,
                                 int64_t deadline_ns, redisReply **out, struct dlock_error *err);

#endif
