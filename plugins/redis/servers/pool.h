/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the connections of a session for requests.
 *
 * While there are no more requests at a time than connections allowed, each request has a
 * connection to itself; beyond that requests share. A dead connection that still has users is not
 * counted. A request that finds all connections in use makes a further one, inside its deadline;
 * the pool makes one connection at a time.
 */
#ifndef REDIS_POOL_H
#define REDIS_POOL_H

#include "resp/info.h"

#include <pthread.h>
#include <stdatomic.h>

struct redis_pipeline;
struct redis_sentinels;

struct redis_pool {
    void *session; /* `self`, for the host */
    const struct dlock_host *host;
    const struct resp_config *config;
    const struct tls *tls;
    struct redis_sentinels *sentinels; /* name the server of a new connection; NULL: the config */
    unsigned limit;                    /* of connections */
    unsigned processors;               /* to spin on; 0: the pool never spins */
    _Atomic uint32_t numbers;          /* the last number of a request */
    _Atomic unsigned asking;           /* threads in redis_call_run */
    _Atomic uint64_t caps;             /* in force on every connection */
    _Atomic bool guarded;     /* a connection has the failover guard: all later ones have it */
    _Atomic bool contended;   /* others want the same names: spinning takes their processor */
    _Atomic bool doubted;     /* see redis_pool_doubt */
    _Atomic int64_t asked_ns; /* when the sentinels were asked last */

    pthread_mutex_t mutex; /* guards the rest; a leaf */
    pthread_cond_t changed;
    struct redis_pipeline *pipelines;
    bool connecting;
    int64_t retry_ns, pause_ns; /* the time of the next further connection; the last pause */
};

/* sentinels is set by the caller. */
void redis_pool_init(struct redis_pool *pool, void *session, const struct dlock_host *host,
                     const struct resp_config *config, const struct tls *tls, int64_t limit);
/* No thread uses it any more. */
void redis_pool_fini(struct redis_pool *pool);
/* In a forked child, instead of fini: closes descriptors and frees nothing. */
void redis_pool_after_fork(struct redis_pool *pool);

/* Makes a connection and judges the server [OPN-1], with the status of slot open. keep: the
 * connection is kept for requests; else it is closed. */
enum dlock_status redis_pool_connect(struct redis_pool *pool, bool keep, int64_t deadline_ns,
                                     struct resp_info *server_info, uint64_t *caps,
                                     struct dlock_error *err);

/* caps: what the server of the pipeline is found to give; completes it. Core learns what is gone
 * [C16]. */
void redis_pool_caps_take(struct redis_pool *pool, const struct redis_pipeline *pipeline,
                          uint64_t *caps);

/* A connection for one request, until redis_pool_put. *fresh: it was made for this request. */
enum dlock_status redis_pool_take(struct redis_pool *pool, int64_t deadline_ns,
                                  struct redis_pipeline **out, bool *fresh,
                                  struct dlock_error *err);
void redis_pool_put(struct redis_pool *pool, struct redis_pipeline *pipeline);

/* The server refuses, because its replicas do not confirm that it is the master, or are not there.
 * Before the next request the sentinels are asked, at most once a second. If they name another
 * server, connections to this one take no more requests. */
void redis_pool_doubt(struct redis_pool *pool);

#endif
