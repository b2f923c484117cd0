/* SPDX-License-Identifier: MIT */
/* cluster_guard_kit.h - a cluster with the failover guard, a session, and names of one of its
 * masters.
 */
#ifndef DLT_CLUSTER_GUARD_KIT_H
#define DLT_CLUSTER_GUARD_KIT_H

#include "cluster_server.h"
#include "redis_kit.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* cluster-node-timeout is longer than the D of most cases: a busy machine makes no failover. */
enum { T_MS = 2000, D_MS = 2000, S_MS = 1000, NODE_MS = 5000, SLACK_MS = 60000 };

static struct dlt_cluster cluster;
static struct dlt_session s;
static struct dlt_request held, fresh, other;
static char held_name[16], fresh_name[16], other_name[16];

static inline int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void session_begin(struct dlt_session *session)
{
    dlt_session_init(session, "redis", cluster.redis[0].address);
    session->target.scheme = "redis+cluster";
    session->hosts[1] = cluster.redis[1].address;
    session->hosts[2] = cluster.redis[2].address;
    dlt_session_trusted(session);
    dlt_session_option(session, "restart_guard", "2000");
    dlt_session_option(session, "waiter_lease", "2000");
    session->call_ms = 5000;
}

static inline enum dlock_status session_open(struct dlt_session *session)
{
    session_begin(session);
    dlt_session_option(session, "failover_guard", "4000");
    return dlt_session_open(session);
}

/* Asks until the status is this one, or for a minute. Returns when that was. */
static inline int64_t wait_for(enum dlock_status wanted,
                               enum dlock_status (*ask)(struct dlt_session *, struct dlt_request *),
                               struct dlt_request *request, const char *what)
{
    int64_t since = now_ms();
    enum dlock_status status = ask(&s, request);

    while (status != wanted && now_ms() - since < SLACK_MS) {
        dlt_sleep_ms(50);
        status = ask(&s, request);
    }
    if (status != wanted)
        (void)dlt_ok(false, "%s: %d: %s", what, (int)status, s.err.message);
    return now_ms();
}

static inline unsigned slot_of(const char *name)
{
    char key[24];

    (void)snprintf(key, sizeof key, "{%s}", name);
    return dlt_cluster_slot(&cluster, key);
}

static inline unsigned master_of(const char *name)
{
    return (unsigned)dlt_cluster_master_wait(&cluster, slot_of(name), -1);
}

/* A name n<i> of this master, from n<first> on. */
static inline void name_at(unsigned node, int first, char name[16])
{
    for (int i = first;; i++) {
        (void)snprintf(name, 16, "n%d", i);
        if (dlt_cluster_master(&cluster, slot_of(name)) == (int)node)
            return;
    }
}

/* Names of the shard that has this one, past its guard; `held` is held, and does not expire. */
static inline void shard_begin(unsigned node)
{
    static int first = 0;

    first += 1000; /* names that no case before had */
    name_at(node, first, held_name);
    name_at(node, first + 200, fresh_name);
    name_at(node, first + 400, other_name);
    dlt_request(&s, &held, held_name, 'a', T_MS);
    dlt_request(&s, &fresh, fresh_name, 'b', T_MS);
    dlt_request(&s, &other, other_name, 'c', T_MS);
    (void)wait_for(DLOCK_OK, dlt_try, &held, "a lock");
    (void)dlt_redis_ask(&cluster.redis[node], "PEXPIRE dl:{%s} 120000", held_name);
}

static inline void shard_end(void)
{
    (void)wait_for(DLOCK_OK, dlt_unlock, &held, "an unlock");
}

#endif
