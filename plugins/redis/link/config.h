/* SPDX-License-Identifier: MIT */
/* config.h - the settings of the URI; borrows from the target. */
#ifndef REDIS_CONFIG_H
#define REDIS_CONFIG_H

#include "redis/link/nodes.h"
#include "redis/link/service.h"

#define REDIS_ORIGIN     "redis"
#define REDIS_LIMIT_MAX  1000 /* as DLOCK_LIMIT_MAX of dlock.h */
#define REDIS_FENCE_ROOM 31u  /* see FENCE_STEP in fence.lua */

/* service, nodes: filled if the scheme has sentinels, or a cluster. OK or INVALID. */
enum dlock_status redis_config_init(struct resp_config *config, struct redis_service *service,
                                    struct redis_nodes *nodes, const struct dlock_target *target,
                                    struct dlock_error *err);

#endif
