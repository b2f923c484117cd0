/* SPDX-License-Identifier: MIT */
#include "redis/link/config.h"
#include "resp/error.h"

#include <string.h>

/* ---- the servers of a cluster ---- */

#define NODE_PORT 6379

static enum dlock_status refuse(struct dlock_error *err, const char *why)
{
    return dlock_fail(err, REDIS_ORIGIN, DLOCK_INVALID, 0, "%s", why);
}

static bool names_cluster(const struct dlock_target *target)
{
    const char *at = strchr(target->scheme, '+');

    return at != NULL && strcmp(at, "+cluster") == 0;
}

static enum dlock_status nodes_init(struct redis_nodes *nodes, struct resp_config *config,
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

/* ---- the service that sentinels watch ---- */

#define SENTINEL_PORT 26379

static bool names_service(const struct dlock_target *target)
{
    const char *at = strchr(target->scheme, '+');

    return at != NULL && strcmp(at, "+sentinel") == 0;
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

static enum dlock_status service_init(struct redis_service *service, struct resp_config *config,
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

static enum dlock_status service_refuse(const struct dlock_target *target, struct dlock_error *err)
{
    if (target->option(target, "sentinel_user") != NULL ||
        target->option(target, REDIS_SENTINEL_PASS_FILE) != NULL ||
        target->option(target, "sentinel_tls") != NULL)
        return refuse(err, "an option of sentinels, and the scheme is not redis+sentinel or "
                           "rediss+sentinel");
    return DLOCK_OK;
}

/* ---- all ---- */

#define DEFAULT_PORT      6379
#define FAILOVER_LEAST_MS 2000

/* Without PUBLISH and SUBSCRIBE waiters ask. */
static const char *const commands[RESP_COMMANDS_MOST + 1] = {
    "EVALSHA", "EVAL",    "TIME",      "EXISTS", "GET",   "SET",    "DEL",
    "PTTL",    "PEXPIRE", "PEXPIREAT", "HGET",   "HMGET", "HSET",   "HDEL",
    "ZADD",    "ZREM",    "ZCARD",     "ZSCORE", "ZRANK", "ZRANGE", "ZRANGEBYSCORE"};

static bool scheme_ends(const char *scheme, const char *end)
{
    size_t len = strlen(scheme), end_len = strlen(end);

    return len >= end_len && strcmp(scheme + len - end_len, end) == 0;
}

/* "rediss", "rediss+sentinel" */
static bool scheme_begins(const char *scheme, const char *begin)
{
    size_t len = strcspn(scheme, "+");

    return len == strlen(begin) && memcmp(scheme, begin, len) == 0;
}

static bool database_parse(const char *text, int64_t *out)
{
    int64_t value = 0;

    if (*text == '\0' || strlen(text) > 7)
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (*text - '0');
    }
    *out = value;
    return true;
}

static enum dlock_status tcp_init(struct resp_config *config, const struct dlock_target *target,
                                  struct dlock_error *err)
{
    bool option = target->option(target, "db") != NULL;

    if (target->hosts[0] == NULL)
        return refuse(err, "want a host, as in redis://127.0.0.1:6379");
    if (target->hosts[1] != NULL)
        return refuse(err, "want one host; for several independent servers: redlock://");
    if (!address_parse(&config->address, target->hosts[0], DEFAULT_PORT))
        return refuse(err, "the host is not one that can be looked up");
    address_format(&config->address, config->endpoint, sizeof config->endpoint);
    if (target->path[0] == '\0' || strcmp(target->path, "/") == 0)
        return DLOCK_OK;
    if (option)
        return refuse(err, "want the number of a database once: as the path or as db=");
    if (!database_parse(target->path + 1, &config->database))
        return dlock_fail(err, REDIS_ORIGIN, DLOCK_INVALID, 0, "'%.40s' is not a database number",
                          target->path + 1);
    return DLOCK_OK;
}

static enum dlock_status unix_init(struct resp_config *config, const struct dlock_target *target,
                                   struct dlock_error *err)
{
    if (target->hosts[0] != NULL || target->path[0] != '/')
        return refuse(err,
                      "want the absolute path of a socket, as in redis+unix:///run/redis.sock");
    config->path = target->path;
    (void)snprintf(config->endpoint, sizeof config->endpoint, "%.63s", config->path);
    return DLOCK_OK;
}

/* Braces would move the hash tag, which the name is. */
static enum dlock_status prefix_init(struct resp_config *config, const struct dlock_target *target,
                                     struct dlock_error *err)
{
    const char *prefix = target->option(target, "prefix");
    const char *key = target->option(target, "key");

    config->prefix = prefix != NULL ? prefix : "dl:";
    config->raw = key != NULL && strcmp(key, "raw") == 0;
    if (strlen(config->prefix) > RESP_PREFIX_MAX || strpbrk(config->prefix, "{}") != NULL)
        return refuse(err, "prefix: at most 64 bytes, and no braces");
    return DLOCK_OK;
}

static enum dlock_status server_init(struct resp_config *config, struct redis_service *service,
                                     struct redis_nodes *nodes, const struct dlock_target *target,
                                     struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (names_service(target))
        return service_init(service, config, target, err);
    status = service_refuse(target, err);
    if (status != DLOCK_OK)
        return status;
    if (names_cluster(target))
        return nodes_init(nodes, config, target, err);
    return scheme_ends(target->scheme, "+unix") ? unix_init(config, target, err)
                                                : tcp_init(config, target, err);
}

/* The sentinels have the same options. */
static enum dlock_status tls_take(struct resp_config *config, struct redis_service *service,
                                  const struct dlock_target *target, struct dlock_error *err)
{
    struct resp_config both[2] = {*config, service->sentinel};
    enum dlock_status status =
        resp_config_take_tls(both, names_service(target) ? 2 : 1, target, err);

    *config = both[0];
    service->sentinel = both[1];
    return status;
}

static enum dlock_status failover_init(struct resp_config *config,
                                       const struct dlock_target *target, struct dlock_error *err)
{
    const char *failover = target->option(target, "failover");

    config->failover =
        config->restart_guard_ms > 0 ? RESP_FAILOVER_IF_REPLICAS : RESP_FAILOVER_UNSAFE;
    if (config->moves && !config->raw && config->restart_guard_ms > 0)
        config->failover = RESP_FAILOVER_ALWAYS;
    if (failover != NULL && strcmp(failover, "unsafe") == 0)
        config->failover = RESP_FAILOVER_UNSAFE;
    if (failover != NULL && strcmp(failover, "guard") == 0)
        config->failover = RESP_FAILOVER_ALWAYS;
    config->asks_past = config->failover != RESP_FAILOVER_UNSAFE;
    config->failover_guard_ms = target->number(target, "failover_guard");
    if (config->raw && config->failover == RESP_FAILOVER_ALWAYS)
        return refuse(err, "failover=guard: not with key=raw, other programs have no guard");
    if (config->failover_guard_ms > 0 &&
        config->failover_guard_ms < config->restart_guard_ms + FAILOVER_LEAST_MS)
        return refuse(err,
                      "failover_guard: at least restart_guard and 2 s: an old master goes on for "
                      "a while");
    return DLOCK_OK;
}

enum dlock_status redis_config_init(struct resp_config *config, struct redis_service *service,
                                    struct redis_nodes *nodes, const struct dlock_target *target,
                                    struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    *config = (struct resp_config){
        .origin = REDIS_ORIGIN,
        .target = target,
        .commands = commands,
        .user = target->user,
        .password = target->password,
        .database = target->number(target, "db"),
        .spin = target->number(target, "spin") != 0,
        .unsafe_eviction = target->number(target, "unsafe_eviction") != 0,
        .restart_guard_ms = target->number(target, "restart_guard"),
        .secure =
            scheme_begins(target->scheme, "rediss") || scheme_begins(target->scheme, "valkeys"),
    };
    status = server_init(config, service, nodes, target, err);
    if (status == DLOCK_OK)
        status = tls_take(config, service, target, err);
    if (status == DLOCK_OK)
        status = prefix_init(config, target, err);
    if (status == DLOCK_OK)
        status = failover_init(config, target, err);
    if (status == DLOCK_OK && config->restart_guard_ms > 0 &&
        config->restart_guard_ms < target->number(target, "waiter_lease"))
        return refuse(err, "waiter_lease is longer than restart_guard: a lock that the queue "
                           "grants lasts that long");
    return status;
}
