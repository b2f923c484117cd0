/* SPDX-License-Identifier: MIT */
/*
 * cluster.h - the masters of a cluster, each with a pool of connections, and who has which slot.
 *
 * The map of slots is read from a server when the client is opened, and again after a sign that it
 * is old: one thread reads, others go on with the map of before. A server that is no
 * master any more keeps its pool until its room is needed for another one.
 */
#ifndef REDIS_CLUSTER_H
#define REDIS_CLUSTER_H

#include "redis/link/slot.h"
#include "redis/servers/pool.h"

#include <hiredis/hiredis.h>

struct redis_cluster;

/* One server that is or was a master. */
struct redis_shard {
    struct redis_pool pool;
    struct resp_config config;
    _Atomic bool failed; /* the last request got no answer */
    unsigned users;      /* guarded by the mutex of the cluster */
};

/* config: of all servers but for the address; sockets: connections a server. hosts are parsed
 * already, and borrowed like the rest. NULL: no memory. */
struct redis_cluster *redis_cluster_new(void *session, const struct dlock_host *host,
                                        const struct resp_config *config, const struct tls *tls,
                                        const struct address *hosts, unsigned host_count,
                                        int64_t sockets);
/* No thread uses it any more. NULL is fine, here and below. */
void redis_cluster_free(struct redis_cluster *cluster);
void redis_cluster_after_fork(struct redis_cluster *cluster);

/* The capabilities that the client announces: a server with less is reported [FAI-2]. */
void redis_cluster_announce(struct redis_cluster *cluster, uint64_t caps);

/* Reads the map of slots. OK also if it is read by another thread. Else the status of the last
 * server that was asked, or CONFIG. */
enum dlock_status redis_cluster_read(struct redis_cluster *cluster, int64_t deadline_ns,
                                     struct dlock_error *err);
/* The same if there was a sign that the map is old. A failure is none: the map of before stays. */
void redis_cluster_refresh(struct redis_cluster *cluster, int64_t deadline_ns);
/* There is such a sign. */
void redis_cluster_suspect(struct redis_cluster *cluster);

/* A number of the master of a slot, or of none; and whether there is one and it did not fail. */
unsigned redis_cluster_owner(struct redis_cluster *cluster, unsigned slot);
bool redis_cluster_answers(struct redis_cluster *cluster, unsigned owner);

/* The functions that return a server count a user of it, until put. */

/* The master of a slot; NULL: nobody has it. */
struct redis_shard *redis_cluster_shard(struct redis_cluster *cluster, unsigned slot);
/* The server at an address; NULL: no memory, or too many with slots or users. */
struct redis_shard *redis_cluster_shard_at(struct redis_cluster *cluster,
                                           const struct address *address);
/* A server said that the slot belongs to this one. */
void redis_cluster_moved(struct redis_cluster *cluster, unsigned slot,
                         const struct redis_shard *shard);

/* The i-th master that has slots; NULL: there are no more. */
struct redis_shard *redis_cluster_master(struct redis_cluster *cluster, unsigned i);
/* NULL is fine. */
void redis_cluster_put(struct redis_cluster *cluster, struct redis_shard *shard);

/* The slots that have a master. */
unsigned redis_cluster_covered(struct redis_cluster *cluster);

#define REDIS_MASTERS_MOST 250
#define REDIS_NOBODY       255u

struct redis_topology {
    unsigned count; /* of masters that have slots */
    struct address masters[REDIS_MASTERS_MOST];
    unsigned char owners[REDIS_SLOTS]; /* an index of masters, or REDIS_NOBODY */
};

/* Reads the answer to CLUSTER SLOTS. asked: the server that answered, which may leave out its own
 * host. False: it makes no sense, or names too many masters. */
bool redis_cluster_topology_read(struct redis_topology *topology, const redisReply *reply,
                                 const struct address *asked);

#endif
