/* SPDX-License-Identifier: MIT */
/*
 * session.h - `self` of the slots of plugin.h: a client's side of the server.
 *
 * A client has one session, which all its threads use at once. The session has a few connections
 * for requests (pool.h), which threads share (pipeline.h), and one on which grants arrive
 * (waiter.h). Every operation on a lock is one script in the server (call.h) and one round trip;
 * operations of a batch may share one (lease_batch.h);
 * name.lua says what the scripts store. plugins/resp has the parts that are shared with redlock.
 */
#ifndef REDIS_SESSION_H
#define REDIS_SESSION_H

#include "redis/link/config.h"
#include "redis/servers/pool.h"
#include "resp/subscriber.h"

struct redis_session {
    const struct dlock_host *host;
    struct resp_config config;
    struct redis_service service;      /* of redis+sentinel */
    struct redis_nodes nodes;          /* of redis+cluster */
    struct redis_cluster *cluster;     /* NULL: not a cluster; else it has the pools */
    struct redis_sentinels *sentinels; /* NULL: the URI names the server */
    struct tls *tls;
    struct redis_pool pool;
    struct resp_subscriber subscriber;
    struct resp_config subscriber_config; /* the leader's: the server of the subscription */
    unsigned subscriber_next;             /* the leader's: the server of a cluster to try next */
    uint64_t subscriber_version;          /* the leader's, for redis_sentinels_moved */
    atomic_bool failure_reported;         /* of passing on */
    atomic_int alone_trylocks, alone_unlocks; /* the next batches without a script for many names */
    int64_t waiter_lease_ms; /* of a queue entry, and of the lease that is granted to it */
};

#endif
