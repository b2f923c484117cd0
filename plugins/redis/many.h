/* SPDX-License-Identifier: MIT */
/*
 * many.h - one script for many names of a batch. The script does the simple thing alone: it takes
 * names without a holder and without waiters (acquire_many.lua), or releases names without waiters
 * (release_many.lua). Each other name gets "not by this script" and is asked for by the script of
 * one name, as if this call had not been.
 */
#ifndef REDIS_MANY_H
#define REDIS_MANY_H

#include "redis/call/call.h"
#include "redis/servers/session.h"

/* Names of one script. The server serves nobody else while a script runs: 32 grants take it as long
 * as 19 scripts for one name. With 16 names a pair takes it a twentieth longer, with 64 a
 * thirtieth less. */
#define REDIS_MANY_MOST 32

/* A call for n names. Has 10 KB, most of which is never used. */
struct redis_many {
    struct redis_call call;
    size_t n;
    size_t which[REDIS_MANY_MOST]; /* the caller's numbers of the names */
};

/* Whether the names of this session can be in one script: a cluster refuses names of several slots,
 * and with key=raw a name has one more key. */
bool redis_many_is_possible(const struct redis_session *session);

/* script: ACQUIRE_MANY or RELEASE_MANY. many->n is set; keys has that many names, in the order of
 * the words that the caller adds: token, ttl, label; or the token. */
void redis_many_begin(struct redis_many *many, enum redis_script_id script,
                      const struct resp_keys *const *keys);

/* Reads the next name's answer, from `reply->str` on: its fence, or 1 for a release; 0: not by this
 * script. */
int64_t redis_many_next(const char **at);

/* The call ended without an answer for any name, and so did each name: as if it had been sent
 * alone. False: the server, or the check before the request was sent, refused the script, which may
 * be for one of the names: each name is to be asked for alone. Nothing was done, unless the call is
 * in doubt. */
bool redis_many_is_over(const struct redis_many *many, enum dlock_status status);

/* The answer was an error that does not say whether the script did anything. */
bool redis_many_is_in_doubt(const struct redis_many *many, enum dlock_status status);

#endif
