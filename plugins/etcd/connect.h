/* SPDX-License-Identifier: MIT */
/*
 * connect.h - makes a connection to a member, and checks what safety needs [OPN-1]: a login, a
 * version, a leader, that the members agree on a read, and that leases are asked for at a member,
 * not at a grpc-proxy.
 *
 * All members of the URI have to be of one cluster: two clusters would be two holders. The revision
 * of a cluster never goes back, unless it lost data, and with them locks: that is logged once.
 */
#ifndef ETCD_CONNECT_H
#define ETCD_CONNECT_H

#include "channel.h"
#include "config.h"

#include <stdatomic.h>

/* What is known of the cluster, whichever member is asked. */
struct etcd_cluster {
    const struct etcd_config *config;
    const struct dlock_host *host;
    struct tls *tls;          /* NULL: plain */
    _Atomic uint64_t id;      /* 0: not known */
    _Atomic int64_t revision; /* the greatest one of an answer */
    _Atomic bool warned;      /* that the revision went back */
};

/* An answer had this revision. */
static inline void etcd_connect_note(struct etcd_cluster *cluster, int64_t revision)
{
    int64_t known = atomic_load(&cluster->revision);

    while (revision > known && !atomic_compare_exchange_weak(&cluster->revision, &known, revision))
        continue;
}

/* What a member said of itself when the channel was made. */
struct etcd_member {
    char version[24];
    char endpoint[64]; /* "host:port" */
    uint64_t cluster_id;
};

/* index: of the config's members. UNAVAILABLE, AUTH, CONFIG, INVALID, PROTOCOL, NOMEM; *member has
 * then what is known. */
enum dlock_status etcd_connect(struct etcd_cluster *cluster, size_t index, int64_t deadline_ns,
                               struct etcd_channel **out, struct etcd_member *member,
                               struct dlock_error *err);

#endif
