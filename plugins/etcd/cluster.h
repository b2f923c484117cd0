/* SPDX-License-Identifier: MIT */
/*
 * cluster.h - what a client knows of its cluster, whichever member it asks.
 *
 * All members of the URI have to be of one cluster: two clusters would be two holders. The revision
 * of a cluster never goes back, unless it lost data, and with them locks: that is logged once.
 */
#ifndef ETCD_CLUSTER_H
#define ETCD_CLUSTER_H

#include "config.h"

#include <stdatomic.h>

struct etcd_cluster {
    const struct etcd_config *config;
    const struct dlock_host *host;
    struct tls *tls;          /* NULL: plain */
    _Atomic uint64_t id;      /* 0: not known */
    _Atomic int64_t revision; /* the greatest one of an answer */
    _Atomic bool warned;      /* that the revision went back */
};

/* False: this is another cluster than before. */
bool etcd_cluster_is_same(struct etcd_cluster *cluster, uint64_t id);

/* An answer had this revision. */
void etcd_cluster_note(struct etcd_cluster *cluster, int64_t revision);
/* The members agreed on this revision after `before` was the greatest one. endpoint: the member
 * that says so. */
void etcd_cluster_check(struct etcd_cluster *cluster, int64_t before, int64_t revision,
                        const char *endpoint);

#endif
