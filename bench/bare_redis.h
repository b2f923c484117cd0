/* SPDX-License-Identifier: MIT */
/* bare_redis.h - hiredis with as little code around it as possible. */
#ifndef BENCH_BARE_REDIS_H
#define BENCH_BARE_REDIS_H

#include "address.h"

#include <hiredis/hiredis.h>

/* Deletes the key if its value is the argument. */
extern const char bench_bare_delete[];

/* A connection to the number-th host, with login and database. NULL: why says the reason. */
redisContext *bench_bare_connect(const struct bench_address *address, int number, char *why);

/* Frees the reply. Zero: no answer or an error, and why. */
int bench_bare_reply(redisContext *context, redisReply *reply, int type, long long *integer,
                     char *why);

/* Loads a script; sha has room for 41 bytes. */
int bench_bare_load(redisContext *context, const char *script, char *sha, char *why);

#endif
