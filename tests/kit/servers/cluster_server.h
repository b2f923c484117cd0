/* SPDX-License-Identifier: MIT */
/*
 * cluster_server.h - a Redis Cluster of a test's own: three masters with a replica each, on free
 * ports of 127.0.0.1. Their directories are removed with them, and they end with the process that
 * started them.
 *
 * cluster-node-timeout is a second.
 */
#ifndef DLT_CLUSTER_SERVER_H
#define DLT_CLUSTER_SERVER_H

#include "redis_server.h"

#define DLT_CLUSTER_MASTERS 3
#define DLT_CLUSTER_COUNT   6 /* node + DLT_CLUSTER_MASTERS begins as the replica of node */
#define DLT_CLUSTER_SLOTS   16384u

struct dlt_cluster {
    struct dlt_redis redis[DLT_CLUSTER_COUNT];
    char ids[DLT_CLUSTER_COUNT][48];
    char args_text[DLT_CLUSTER_COUNT][16]; /* what the args of servers borrow */
    char hosts[160];                       /* for a URI */
    char why[768];                         /* after a false */
};

/* Starts all, and waits until the cluster is whole. args: of the servers, after those that are
 * always there; NULL: none. False: why. */
bool dlt_cluster_start(struct dlt_cluster *cluster, const char *const *args);
/* Harmless twice. */
void dlt_cluster_stop(struct dlt_cluster *cluster);

/* The master of a slot, as most running servers say; -1: they do not agree. */
int dlt_cluster_master(struct dlt_cluster *cluster, unsigned slot);
/* Waits until that is another server than `before` (-1: any), for a minute at most. -1: no. */
int dlt_cluster_master_wait(struct dlt_cluster *cluster, unsigned slot, int before);
/* All servers say that the cluster is whole. Waits for a minute at most. */
bool dlt_cluster_whole_wait(struct dlt_cluster *cluster);

/* A failover by hand: `node` is a replica. how: "", "FORCE". False: it refuses. */
bool dlt_cluster_failover(struct dlt_cluster *cluster, unsigned node, const char *how);

/* The slot of a key, as the servers compute it. */
unsigned dlt_cluster_slot(struct dlt_cluster *cluster, const char *key);
/* Moves a slot to another master, in three steps: opens it, moves its keys, gives it to `to`. */
bool dlt_cluster_slot_open(struct dlt_cluster *cluster, unsigned slot, unsigned from, unsigned to);
bool dlt_cluster_slot_keys(struct dlt_cluster *cluster, unsigned slot, unsigned from, unsigned to);
/* ... or takes the move back: what has moved is lost. */
bool dlt_cluster_slot_stay(struct dlt_cluster *cluster, unsigned slot, unsigned from, unsigned to);
bool dlt_cluster_slot_give(struct dlt_cluster *cluster, unsigned slot, unsigned from, unsigned to);

#endif
