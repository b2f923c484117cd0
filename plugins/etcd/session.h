/* SPDX-License-Identifier: MIT */
/*
 * session.h - `self` of the slots of plugin.h: a client's side of the cluster, which all its
 * threads use at once.
 */
#ifndef ETCD_SESSION_H
#define ETCD_SESSION_H

#include "endpoints.h"
#include "stock.h"

struct etcd_session {
    const struct dlock_host *host;
    struct etcd_config config;
    struct tls *tls;
    struct etcd_endpoints endpoints;
    struct etcd_stock stock;
    pthread_mutex_t mutex; /* guards interrupted and wait of the slots */
    int64_t ttl_least_ms;  /* what the cluster makes of a lease of a second */
};

/* dlock_request.attempt: zeroed by core. */
struct etcd_slot {
    struct etcd_lease *lease;   /* the one that the key has; NULL: none, or not known */
    int64_t create_revision;    /* of the key; 0: not known */
    int64_t seen_revision;      /* the cluster's, when the predecessor was found */
    unsigned char *predecessor; /* key to wait for; NULL: none known. Malloced */
    size_t predecessor_len;
    struct etcd_wait *wait; /* in slot watch; under session->mutex */
    bool interrupted;       /* sticky [INT-2]; under session->mutex */
};

#endif
