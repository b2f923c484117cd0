/* SPDX-License-Identifier: MIT */
/*
 * view.h - the looks of the failover guard (guard.h): keeps what view.lua answers, and says what
 * follows from it for a request. No I/O.
 */
#ifndef REDIS_VIEW_H
#define REDIS_VIEW_H

#include "redis/guard/guard.h"

#define REDIS_VIEW_WORD_SIZE 256
#define REDIS_NO_SLOT        (-1) /* not in a cluster */

/* The master and its followers have to be more than half of the servers: two masters with so many
 * followers each would have one in common. */
int64_t redis_view_followers_least(int64_t replicas);

/* Keeps the answer of a look that was made at seen_ns or later. Answers may come in another order
 * than the looks. NULL: fine. Else why the next connection has to judge the server again. */
const char *redis_view_keep(struct redis_guard *guard, const redisReply *reply, int64_t seen_ns);

/* True: the last look does not count any more. */
bool redis_view_expired(struct redis_guard *guard, int64_t now_ns);
/* True: no look will be confirmed in time by what replicas say on their own. */
bool redis_view_unsettled(struct redis_guard *guard, int64_t now_ns);

/* The last word of a script that looks at the server (same.lua, guard.lua), on names of this slot,
 * or REDIS_NO_SLOT. */
void redis_view_word(struct redis_guard *guard, int slot, int64_t now_ns,
                     char out[REDIS_VIEW_WORD_SIZE]);

/* How long nothing is granted in this slot; *age_ms: since enough replicas follow the server, and
 * the slot is there. 0 also if that is not known. */
int64_t redis_view_left_ms(struct redis_guard *guard, int slot, int64_t now_ns, int64_t *age_ms);

#endif
