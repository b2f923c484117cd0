/* SPDX-License-Identifier: MIT */
/*
 * connect.h - makes a connection to a member, and checks what safety needs [OPN-1]: a login, a
 * version, a leader, that the members agree on a read, that the cluster is the one of before, and
 * that leases are asked for at a member, not at a grpc-proxy.
 */
#ifndef ETCD_CONNECT_H
#define ETCD_CONNECT_H

#include "channel.h"
#include "cluster.h"

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
