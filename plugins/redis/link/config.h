/* SPDX-License-Identifier: MIT */
/* config.h - the settings of the URI; borrows from the target. */
#ifndef REDIS_CONFIG_H
#define REDIS_CONFIG_H

#include "resp/config.h"

#define REDIS_ORIGIN     "redis"
#define REDIS_LIMIT_MAX  1000 /* as DLOCK_LIMIT_MAX of dlock.h */
#define REDIS_FENCE_ROOM 31u  /* see FENCE_STEP in fence.lua */

#define REDIS_SENTINEL_PASS_FILE "sentinel_pass_file"
#define REDIS_SENTINELS_MOST     32
#define REDIS_NODES_MOST         32

/* The service that sentinels watch. */
struct redis_service {
    const char *name;      /* of the master, as the sentinels know it; NULL: the scheme has none */
    const char *pass_file; /* the password for the sentinels; NULL: none */
    unsigned count;        /* of sentinels in the URI */
    struct address addresses[REDIS_SENTINELS_MOST];
    struct resp_config sentinel; /* of each sentinel, all but its address and endpoint */
};

/* The servers of a cluster. */
struct redis_nodes {
    unsigned count; /* in the URI; 0: the scheme names no cluster */
    struct address addresses[REDIS_NODES_MOST];
};

/* service, nodes: filled if the scheme has sentinels, or a cluster. OK or INVALID. */
enum dlock_status redis_config_init(struct resp_config *config, struct redis_service *service,
                                    struct redis_nodes *nodes, const struct dlock_target *target,
                                    struct dlock_error *err);

#endif
