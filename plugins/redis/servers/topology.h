/* SPDX-License-Identifier: MIT */
/* topology.h - which server of a cluster has which slots, as one of them says. */
#ifndef REDIS_TOPOLOGY_H
#define REDIS_TOPOLOGY_H

#include "redis/link/connection.h"
#include "redis/link/slot.h"

#define REDIS_MASTERS_MOST 250
#define REDIS_NOBODY       255u

struct redis_topology {
    unsigned count; /* of masters that have slots */
    struct address masters[REDIS_MASTERS_MOST];
    unsigned char owners[REDIS_SLOTS]; /* an index of masters, or REDIS_NOBODY */
};

/* Reads the answer to CLUSTER SLOTS. asked: the server that answered, which may leave out its own
 * host. False: it makes no sense, or names too many masters. */
bool redis_topology_read(struct redis_topology *topology, const redisReply *reply,
                         const struct address *asked);

/* Asks the server that args->config names, on a connection for this question only. The statuses of
 * redis_connection_open, and CONFIG: it is no server of a cluster. */
enum dlock_status redis_topology_ask(struct redis_topology *topology,
                                     const struct redis_connect_args *args, int64_t deadline_ns,
                                     struct dlock_error *err);

#endif
