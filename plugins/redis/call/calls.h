/* SPDX-License-Identifier: MIT */
/* calls.h - many calls at once: one write, and an answer for each. */
#ifndef REDIS_CALLS_H
#define REDIS_CALLS_H

#include "redis/call/call.h"

/* Most calls of redis_calls_run. */
#define REDIS_CALLS_MOST 64

/* How one of many calls has ended. */
struct redis_call_end {
    enum dlock_status status; /* as of redis_call_run, */
    redisReply *reply;        /* as *out there */
    struct dlock_error *err;  /* set by the caller */
    /* calls.c's: not ended yet; the server did not know its script, and it is sent again with the
     * others; it is sent again alone */
    bool pending, unknown, alone;
};

/* Sends n calls, each with a script, in one write, and waits for the answers. Each ends as if it
 * had been sent alone. Calls whose scripts the server does not know have one more write, in which
 * the first of each script has its text. */
void redis_calls_run(struct redis_pool *pool, struct redis_call *const *calls,
                     struct redis_call_end *ends, size_t n, int64_t deadline_ns);

#endif
