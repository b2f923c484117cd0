/* SPDX-License-Identifier: MIT */
#include "redis/link/service.h"
#include "redis/link/config.h"

#include <string.h>

#define SENTINEL_PORT 26379
#define SCHEME_END    "+sentinel"

static enum dlock_status refuse(struct dlock_error *err, const char *why)
{
    return dlock_fail(err, REDIS_ORIGIN, DLOCK_INVALID, 0, "%s", why);
}

bool redis_service_is_named(const struct dlock_target *target)
{
    const char *at = strchr(target->scheme, '+');

    return at != NULL && strcmp(at, SCHEME_END) == 0;
}

static enum dlock_status addresses_take(struct redis_service *service,
                                        const struct dlock_target *target, struct dlock_error *err)
{
    for (; target->hosts[service->count] != NULL; service->count++) {
        if (service->count == REDIS_SENTINELS_MOST)
            return refuse(err, "want at most 32 sentinels");
        if (!address_parse(&service->addresses[service->count], target->hosts[service->count],
                           SENTINEL_PORT))
            return refuse(err, "a sentinel is not a host that can be looked up");
    }
    if (service->count == 0)
        return refuse(err, "want the sentinels, as in redis+sentinel://host1,host2,host3/service");
    return DLOCK_OK;
}

/* "/name" */
static enum dlock_status name_take(struct redis_service *service, const struct dlock_target *target,
                                   struct dlock_error *err)
{
    service->name = target->path[0] == '/' ? target->path + 1 : target->path;
    if (service->name[0] == '\0' || strchr(service->name, '/') != NULL)
        return refuse(err, "want the name of the service as the path, as in "
                           "redis+sentinel://host1,host2,host3/mymaster");
    return DLOCK_OK;
}

static bool sentinels_are_secure(const struct dlock_target *target, bool secure)
{
    const char *option = target->option(target, "sentinel_tls");

    if (option == NULL || strcmp(option, "same") == 0)
        return secure;
    return strcmp(option, "on") == 0;
}

enum dlock_status redis_service_init(struct redis_service *service, struct resp_config *config,
                                     const struct dlock_target *target, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    *service = (struct redis_service){
        .pass_file = target->option(target, REDIS_SENTINEL_PASS_FILE),
        .sentinel = {.origin = REDIS_ORIGIN,
                     .user = target->option(target, "sentinel_user"),
                     .prefix = "",
                     .secure = sentinels_are_secure(target, config->secure)},
    };
    config->moves = true;
    status = addresses_take(service, target, err);
    if (status == DLOCK_OK)
        status = name_take(service, target, err);
    if (status == DLOCK_OK)
        (void)snprintf(config->endpoint, sizeof config->endpoint, "service %.50s", service->name);
    return status;
}

enum dlock_status redis_service_refuse(const struct dlock_target *target, struct dlock_error *err)
{
    if (target->option(target, "sentinel_user") != NULL ||
        target->option(target, REDIS_SENTINEL_PASS_FILE) != NULL ||
        target->option(target, "sentinel_tls") != NULL)
        return refuse(err, "an option of sentinels, and the scheme is not redis+sentinel or "
                           "rediss+sentinel");
    return DLOCK_OK;
}
