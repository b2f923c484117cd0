/* SPDX-License-Identifier: MIT */
/* bare_redis.h - hiredis with as little around it as will do. */
#ifndef BENCH_BARE_REDIS_H
#define BENCH_BARE_REDIS_H

#include "address.h"

#include <hiredis/hiredis.h>

/* Deletes the key if its value is the argument. */
extern const char bench_bare_delete[];

/* A connection to the number-th host, logged in and with its database chosen. NULL: why. */
redisContext *bench_bare_dial(const struct bench_address *address, int number, char *why);

/* Zero: no answer, or an error, and why. The reply is freed. */
int bench_bare_reply(redisContext *context, redisReply *reply, int type, long long *integer,
                     char *why);

/* Loads a script; sha takes 41 bytes. */
int bench_bare_load(redisContext *context, const char *script, char *sha, char *why);

#endif
