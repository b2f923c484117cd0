/* SPDX-License-Identifier: MIT */
/*
 * sentinels.h - where the master of a service is.
 *
 * Before each new connection all sentinels are asked at once: those of the URI, and those that they
 * know. redis_sentinels_elect says whom to believe. The answer counts for that connection only; the
 * server is asked for its role, too.
 */
#ifndef REDIS_SENTINELS_H
#define REDIS_SENTINELS_H

#include "redis/link/config.h"

struct redis_sentinels;

/* service is borrowed. NULL: no memory. */
struct redis_sentinels *redis_sentinels_new(const struct redis_service *service,
                                            const struct resp_config *config, const struct tls *tls,
                                            const struct dlock_host *host);
/* Nobody asks any more. NULL is fine. */
void redis_sentinels_free(struct redis_sentinels *sentinels);

/* What a round of questions found, for doctor. */
struct redis_sentinels_round {
    unsigned asked, answered, agreed;
    int64_t epoch;
};

/*
 * Asks where the master is. A majority that agrees is believed at once, other sentinels are waited
 * for during 300 ms at most, and a majority until deadline_ns. out: NULL: does not matter; else
 * the rest is waited for in any case. UNAVAILABLE: no majority agrees; AUTH, CONFIG, PROTOCOL,
 * INVALID: a majority fails like this; NOMEM.
 */
enum dlock_status redis_sentinels_ask(struct redis_sentinels *sentinels, int64_t deadline_ns,
                                      struct address *master, struct redis_sentinels_round *out,
                                      struct dlock_error *err);

/* The last master that a majority named. *version rises when it is another one. Returns false if
 * *version is the present one already. */
bool redis_sentinels_moved(struct redis_sentinels *sentinels, uint64_t *version,
                           struct address *master);

struct redis_vote {
    bool given;            /* this sentinel answered */
    struct address master; /* where it sends clients */
    int64_t epoch;         /* config-epoch: the number of the failover that made it the master */
};

/*
 * The master is the address that at least `majority` sentinels name, and of several such addresses
 * the one with the greatest epoch, and of equal epochs the one with most votes. Returns the index
 * of a vote for it, and sets *voters to the number of its votes; -1: there is no such address.
 */
int redis_sentinels_elect(const struct redis_vote *votes, unsigned count, unsigned majority,
                          unsigned *voters);

#endif
