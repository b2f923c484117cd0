/* SPDX-License-Identifier: MIT */
#include "redis/link/nodes.h"
#include "redis/link/config.h"

#include <string.h>

#define NODE_PORT  6379
#define SCHEME_END "+cluster"

static enum dlock_status refuse(struct dlock_error *err, const char *why)
{
    return dlock_fail(err, REDIS_ORIGIN, DLOCK_INVALID, 0, "%s", why);
}

bool redis_nodes_are_named(const struct dlock_target *target)
{
    const char *at = strchr(target->scheme, '+');

    return at != NULL && strcmp(at, SCHEME_END) == 0;
}

enum dlock_status redis_nodes_init(struct redis_nodes *nodes, struct resp_config *config,
                                   const struct dlock_target *target, struct dlock_error *err)
{
    nodes->count = 0;
    config->moves = config->all_keys = true;
    if (config->database != 0 || (target->path[0] != '\0' && strcmp(target->path, "/") != 0 &&
                                  strcmp(target->path, "/0") != 0))
        return refuse(err, "a cluster has the database 0 only, and no path");
    for (; target->hosts[nodes->count] != NULL; nodes->count++) {
        if (nodes->count == REDIS_NODES_MOST)
            return refuse(err, "want at most 32 servers of the cluster: it knows the others");
        if (!address_parse(&nodes->addresses[nodes->count], target->hosts[nodes->count], NODE_PORT))
            return refuse(err, "a server is not a host that can be looked up");
    }
    if (nodes->count == 0)
        return refuse(err, "want servers of the cluster, as in redis+cluster://host1,host2,host3");
    (void)snprintf(config->endpoint, sizeof config->endpoint, "cluster at %.50s", target->hosts[0]);
    return DLOCK_OK;
}
