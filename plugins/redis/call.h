/* SPDX-License-Identifier: MIT */
/* call.h - one script, run in the server. */
#ifndef REDIS_CALL_H
#define REDIS_CALL_H

#include "pool.h"
#include "resp/keys.h"
#include "script.h"

/* Begins a command that runs a script on n names, whose keys must stay where they are, or its twin
 * for key=raw; arguments are added by resp_command_add. */
struct redis_call {
    const struct resp_script *script;
    char count[RESP_DIGITS];
    char number[RESP_DIGITS];    /* of the request: the last argument, added by redis_call_run */
    char guarded[2];             /* see pool.h: an argument of those that pass on */
    bool grants, keeps;          /* see pool.h */
    int64_t guard_left_ms;       /* set by redis_call_run with BUSY, of what grants */
    size_t shown;                /* the word of the command that errors call the key */
    size_t reply_max;            /* bytes of the answer; RESP_REPLY_MAX */
    redis_validate_fn *validate; /* of the answer, see pool.h */
    size_t expects;              /* ... */
    bool foreign;                /* set by redis_call_run: a key is something else than ours */
    struct resp_command command;
};
void redis_call_begin(struct redis_call *call, enum redis_script_id script,
                      const struct resp_keys *keys, size_t n, redis_validate_fn *validate);

/*
 * Runs it. OK and an answer that is no error; UNKNOWN, UNAVAILABLE, BUSY or PROTOCOL of the
 * connection; or what the server's error means. A server that does not know the script is given it.
 */
enum dlock_status redis_call_run(struct redis_pool *pool, struct redis_call *call,
                                 int64_t deadline_ns, redisReply **out, struct dlock_error *err);

#endif
