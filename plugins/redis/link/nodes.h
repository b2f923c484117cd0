/* SPDX-License-Identifier: MIT */
/* nodes.h - the servers of a cluster, as the URI names them. */
#ifndef REDIS_NODES_H
#define REDIS_NODES_H

#include "resp/config.h"

#define REDIS_NODES_MOST 32

struct redis_nodes {
    unsigned count; /* 0: the URI names no cluster */
    struct address addresses[REDIS_NODES_MOST];
};

/* True: the target's scheme is that of a cluster. */
bool redis_nodes_are_named(const struct dlock_target *target);

/* Fills nodes, and the endpoint of config, which has the settings of all servers. OK, or INVALID.
 */
enum dlock_status redis_nodes_init(struct redis_nodes *nodes, struct resp_config *config,
                                   const struct dlock_target *target, struct dlock_error *err);

#endif
