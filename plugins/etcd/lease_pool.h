/* SPDX-License-Identifier: MIT */
/*
 * lease_pool.h - leases of etcd that the client has granted and uses again.
 *
 * LeaseGrant and LeaseRevoke are writes of the cluster: with one each for a lock, half the speed is
 * lost. A lease carries one key at a time. It comes back only after the answer that its key is
 * deleted, or was not put. If that is in doubt, or if somebody else deleted the key, the lease is
 * dropped: nobody keeps it alive, it ends and takes the key with it.
 *
 * A lease that was not kept alive for long is dropped, not given: it may end before its key is put.
 *
 * A lease for a ttl of 20 s or more is granted for a second more. While it was kept alive within
 * that second, it lasts the ttl from now on, and the next lock needs no KeepAlive.
 */
#ifndef ETCD_LEASE_POOL_H
#define ETCD_LEASE_POOL_H

#include "exchange.h"

struct etcd_lease {
    struct etcd_lease *next;
    int64_t id;       /* positive */
    int64_t ttl_ms;   /* as granted: whole seconds */
    int64_t alive_ns; /* when the last request that kept it alive, since answered, was sent */
    uint64_t term;    /* of the leader that answered it; 0: not known */
};

struct etcd_lease_pool {
    struct etcd_endpoints *endpoints;
    pthread_mutex_t mutex; /* a leaf; guards the rest */
    struct etcd_lease *idle;
    size_t count;
    int64_t least_ms; /* what the cluster makes of a lease of a second; 0: not known yet */
};

/* False: errno. */
bool etcd_lease_pool_init(struct etcd_lease_pool *pool, struct etcd_endpoints *endpoints);
void etcd_lease_pool_fini(struct etcd_lease_pool *pool);

int64_t etcd_lease_pool_now(const struct etcd_lease_pool *pool);
/* The ttl of the lease that etcd_lease_pool_take gives: whole seconds, what the cluster gives at
 * least, and the second more. */
int64_t etcd_lease_pool_round(struct etcd_lease_pool *pool, int64_t ttl_ms);
int64_t etcd_lease_pool_least(struct etcd_lease_pool *pool);
void etcd_lease_pool_set_least(struct etcd_lease_pool *pool, int64_t least_ms);

/* A lease of etcd_lease_pool_round(ttl_ms): from the pool, or a new one of the cluster (*fresh).
 * Statuses of etcd_exchange, but never UNKNOWN: a lease without a key matters to nobody
 * (UNAVAILABLE). */
enum dlock_status etcd_lease_pool_take(struct etcd_lease_pool *pool, int64_t ttl_ms,
                                       int64_t deadline_ns, struct etcd_lease **out, bool *fresh,
                                       struct dlock_error *err);
/* A new one in any case. */
enum dlock_status etcd_lease_pool_grant(struct etcd_lease_pool *pool, int64_t ttl_ms,
                                        int64_t deadline_ns, struct etcd_lease **out,
                                        struct dlock_error *err);
/* True: without a KeepAlive the lease lasts from now on as long as the client reports: the ttl, or
 * all of a shorter lease. The leader must still be the one of the lease's term. */
bool etcd_lease_lasts(const struct etcd_lease *lease, int64_t ttl_ms, int64_t now_ns);
/* A request that was sent at sent_ns and answered by rpc has kept the lease alive. */
void etcd_lease_alive(struct etcd_lease *lease, const struct etcd_rpc *rpc, int64_t sent_ns);
/* One that somebody has granted before: its key is known. NULL: no memory. */
struct etcd_lease *etcd_lease_adopt(int64_t id);

/* It has no key now: see above. NULL is fine. */
void etcd_lease_pool_put(struct etcd_lease_pool *pool, struct etcd_lease *lease);
/* In doubt, or over. NULL is fine. */
void etcd_lease_drop(struct etcd_lease *lease);
/* It certainly has no key, and fits no other lock: ends it in the cluster. If that fails, it ends
 * by its ttl. NULL is fine. */
void etcd_lease_pool_revoke(struct etcd_lease_pool *pool, struct etcd_lease *lease,
                            int64_t deadline_ns);

#endif
