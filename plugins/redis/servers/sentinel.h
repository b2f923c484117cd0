/* SPDX-License-Identifier: MIT */
/* sentinel.h - one sentinel that is asked where the master is, without waiting. */
#ifndef REDIS_SENTINEL_H
#define REDIS_SENTINEL_H

#include "redis/link/config.h"
#include "redis/servers/vote.h"
#include "resp/connection.h"

/* Zeroed before init. It must not move. */
struct redis_sentinel {
    struct resp_connection connection; /* the first member */
    const struct redis_service *service;
    struct resp_config config;
    unsigned replies;         /* of its three */
    enum dlock_status status; /* the answer is no vote: why. OK: a vote, or no answer yet */
    struct redis_vote vote;
    struct address others[REDIS_SENTINELS_MOST]; /* the sentinels that it knows */
    unsigned other_count;
};

void redis_sentinel_init(struct redis_sentinel *sentinel, const struct redis_service *service,
                         const struct address *address, const struct tls *tls,
                         const struct dlock_host *host);
void redis_sentinel_fini(struct redis_sentinel *sentinel);

/* True: it has answered, or its connection has failed. */
bool redis_sentinel_is_done(const struct redis_sentinel *sentinel);
/* Why there is no vote of it. */
const char *redis_sentinel_why(const struct redis_sentinel *sentinel);

#endif
