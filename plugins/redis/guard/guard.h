/* SPDX-License-Identifier: MIT */
/*
 * guard.h - the failover guard: what a connection knows of its server, where a replica may become
 * the master (docs/adr/0034-redis-failover-guard.md).
 *
 * Once a second, before a request that grants or keeps, the connection looks: view.lua reads the
 * server's clock, how much it has written for its replicas, and since when enough replicas follow
 * it. Each guarded script is told what was seen, and compares in the server when it runs
 * (guard.lua).
 *
 *   T  restart_guard, which no lease exceeds
 *   D  an old master answers "yours" and grants for D at most when its replicas have left it. A
 *      look counts for D / 2, and the term of a master bridges D / 2 as well
 *   S  the servers' clocks differ by less
 *
 * From the moment when enough replicas follow a server on, which is after its promotion or its
 * start, nothing is "yours" for D + S, and nothing is granted for T + D. In a cluster the same
 * holds for the names of a slot from the moment when a look saw the slot at this server first
 * (owned.lua): the server that had the slot before may have been promoted a moment ago. A slot
 * that no look saw there counts as one whose term has not begun.
 */
#ifndef REDIS_GUARD_H
#define REDIS_GUARD_H

#include "redis/guard/mark.h"
#include "redis/guard/owned.h"
#include "resp/info.h"

#include <pthread.h>

#define REDIS_REPLID_SIZE 41

struct redis_pipeline;

struct redis_view {
    int64_t server_us, offset; /* 0: no look */
    int64_t seen_ns;           /* not later than the look */
};

/* A pipeline's. Without `on` id and alone are used alone. */
struct redis_guard {
    const struct dlock_host *host;
    const struct resp_config *config; /* whose endpoint errors name */
    bool on;
    bool alone;                 /* no replica may follow the server */
    bool is_safe;               /* settings.h finds that FAILOVER_SAFE lacks nothing */
    char id[REDIS_REPLID_SIZE]; /* of the server that was judged; see same.lua */
    char tag[REDIS_MARK_SIZE];  /* in a cluster, of the record's keys */
    int64_t needed;             /* replicas */
    int64_t lasts_ms, yours_ms, grants_ms;

    pthread_mutex_t mutex; /* a leaf; guards the rest */
    int64_t since_us;      /* server's clock; 0: not yet */
    struct redis_view views[2];
    struct redis_owned owned; /* in a cluster, of views[0] */
};

/* Of one connection; host and config are borrowed. NULL: no memory. */
struct redis_guard *redis_guard_new(const struct dlock_host *host,
                                    const struct resp_config *config);
/* NULL is fine. */
void redis_guard_free(struct redis_guard *guard);

/* Decides whether the connection needs the guard, and takes its first view. others_have_it: another
 * connection of the client does, so this one does. Completes info: is_guarded, and in a cluster all
 * replicas. OK; CONFIG: how long an old master goes on is not bounded, err says what to set;
 * UNAVAILABLE and so on. */
enum dlock_status redis_guard_begin(struct redis_pipeline *pipeline, bool others_have_it,
                                    struct resp_info *info, int64_t deadline_ns,
                                    struct dlock_error *err);

/* Looks. settle: also waits, for a short time, until replicas have acknowledged the view. OK also
 * if the server cannot be written: then scripts refuse. */
enum dlock_status redis_guard_view(struct redis_pipeline *pipeline, bool settle,
                                   int64_t deadline_ns, struct dlock_error *err);

#endif
