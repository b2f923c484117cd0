/* SPDX-License-Identifier: MIT */
/*
 * session.h - `self` of the slots of plugin.h: a client's side of the cluster, which all its
 * threads use at once.
 *
 * Every holder and every waiter of a name has a key of its own (kv.h), and the keys in the order
 * of their creation are the queue (queue.h). A key ends with its lease (lease_pool.h). take.h puts
 * the key, unlock.h deletes it, renew.h keeps the lease alive and gives the key another lease or
 * another mode, watch.h waits for the end of the key before it.
 */
#ifndef ETCD_SESSION_H
#define ETCD_SESSION_H

#include "endpoints.h"
#include "lease_pool.h"

struct etcd_session {
    const struct dlock_host *host;
    struct etcd_config config;
    struct tls *tls;
    struct etcd_endpoints endpoints;
    struct etcd_lease_pool pool;
    pthread_mutex_t mutex; /* guards interrupted and wait of the slots */
    bool has_mutex, has_endpoints, has_pool;
    _Atomic bool single_reads; /* a transaction with all reads of a renewal was too large */
};

/* dlock_request.attempt: zeroed by core. queue.h has what is done with it. */
struct etcd_slot {
    struct etcd_lease *lease;   /* the one that the key has; NULL: none, or not known */
    int64_t create_revision;    /* of the key; 0: not known */
    int64_t mod_revision;       /* of the key, as it was put last; 0: not known */
    int64_t read_revision;      /* the cluster's, when the predecessor was found */
    unsigned char *predecessor; /* key to wait for; NULL: none known. Malloced */
    size_t predecessor_len;
    bool holds;             /* the key was the first one, or the first one that counts */
    bool front;             /* of a semaphore: waits for the end of any key of the name */
    uint32_t permit;        /* of a semaphore, if it holds */
    struct etcd_wait *wait; /* in slot watch; under session->mutex */
    bool interrupted;       /* sticky [INT-2]; under session->mutex */
};

#endif
