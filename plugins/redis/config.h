/* SPDX-License-Identifier: MIT */
/* config.h - the settings of the URI; borrows from the target. */
#ifndef REDIS_CONFIG_H
#define REDIS_CONFIG_H

#include "resp/config.h"

#define REDIS_ORIGIN     "redis"
#define REDIS_FENCE_ROOM 31u /* see FENCE_STEP in fence.lua */

/* OK or INVALID. */
enum dlock_status redis_config_init(struct resp_config *config, const struct dlock_target *target,
                                    struct dlock_error *err);

#endif
