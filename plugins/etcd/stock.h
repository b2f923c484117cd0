/* SPDX-License-Identifier: MIT */
/*
 * stock.h - leases of etcd that the client has granted and uses again.
 *
 * LeaseGrant and LeaseRevoke are writes of the cluster: with one each for a lock, half the speed is
 * lost. A lease carries one key at a time. It comes back only after the answer that its key is
 * deleted, or was not put. If that is in doubt, the lease is dropped: nobody keeps it alive, it
 * ends and takes the key with it.
 *
 * A lease that was not kept alive for long is dropped, not given: it may end before the take.
 */
#ifndef ETCD_STOCK_H
#define ETCD_STOCK_H

#include "exchange.h"

struct etcd_lease {
    struct etcd_lease *next;
    int64_t id;       /* positive */
    int64_t ttl_ms;   /* as granted: whole seconds */
    int64_t alive_ns; /* when the last request that kept it alive, since answered, was sent */
};

struct etcd_stock {
    struct etcd_endpoints *endpoints;
    pthread_mutex_t mutex;
    struct etcd_lease *idle;
    size_t count;
};

void etcd_stock_init(struct etcd_stock *stock, struct etcd_endpoints *endpoints);
void etcd_stock_fini(struct etcd_stock *stock);

/* A lease whose ttl is at least ttl_ms, rounded up to seconds: from the stock, or a new one of the
 * cluster. *fresh: it is new: KeepAlive is not needed. Statuses of etcd_exchange, but never
 * UNKNOWN: a lease without a key matters to nobody (UNAVAILABLE). */
enum dlock_status etcd_stock_take(struct etcd_stock *stock, int64_t ttl_ms, int64_t deadline_ns,
                                  struct etcd_lease **out, bool *fresh, struct dlock_error *err);
/* It has no key now: see above. */
void etcd_stock_put(struct etcd_stock *stock, struct etcd_lease *lease);
/* In doubt, or over. NULL is fine. */
void etcd_stock_drop(struct etcd_lease *lease);

#endif
