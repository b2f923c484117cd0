/* SPDX-License-Identifier: MIT */
/* service.h - the service that sentinels watch, as the URI names it. Borrows from the target. */
#ifndef REDIS_SERVICE_H
#define REDIS_SERVICE_H

#include "resp/config.h"

#define REDIS_SENTINELS_MOST     32 /* and servers of a cluster, in the URI */
#define REDIS_SENTINEL_PASS_FILE "sentinel_pass_file"

struct redis_service {
    const char *name;      /* of the master, as the sentinels know it */
    const char *pass_file; /* the password for the sentinels; NULL: none */
    unsigned count;        /* of sentinels in the URI */
    struct address addresses[REDIS_SENTINELS_MOST];
    struct resp_config sentinel; /* of each sentinel, all but its address and endpoint */
};

/* True: the target's scheme is one with sentinels. */
bool redis_service_is_named(const struct dlock_target *target);

/* Fills service, and the endpoint of config, which has the settings of the servers with data. OK,
 * or INVALID. */
enum dlock_status redis_service_init(struct redis_service *service, struct resp_config *config,
                                     const struct dlock_target *target, struct dlock_error *err);

/* INVALID: the target has an option of sentinels, and its scheme has none. */
enum dlock_status redis_service_refuse(const struct dlock_target *target, struct dlock_error *err);

#endif
