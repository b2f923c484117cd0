/* SPDX-License-Identifier: MIT */
#include "redis/link/config.h"
#include "resp/error.h"

#include <string.h>

#define DEFAULT_PORT      6379
#define FAILOVER_LEAST_MS 2000

/* Without PUBLISH and SUBSCRIBE waiters ask. */
static const char *const commands[RESP_COMMANDS_MOST + 1] = {
    "EVALSHA", "EVAL",    "TIME",      "EXISTS", "GET",   "SET",    "DEL",
    "PTTL",    "PEXPIRE", "PEXPIREAT", "HGET",   "HMGET", "HSET",   "HDEL",
    "ZADD",    "ZREM",    "ZCARD",     "ZSCORE", "ZRANK", "ZRANGE", "ZRANGEBYSCORE"};

static enum dlock_status refuse(struct dlock_error *err, const char *why)
{
    return dlock_fail(err, REDIS_ORIGIN, DLOCK_INVALID, 0, "%s", why);
}

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

    if (redis_service_is_named(target))
        return redis_service_init(service, config, target, err);
    status = redis_service_refuse(target, err);
    if (status != DLOCK_OK)
        return status;
    if (redis_nodes_are_named(target))
        return redis_nodes_init(nodes, config, target, err);
    return scheme_ends(target->scheme, "+unix") ? unix_init(config, target, err)
                                                : tcp_init(config, target, err);
}

/* The sentinels have the same options. */
static enum dlock_status tls_take(struct resp_config *config, struct redis_service *service,
                                  const struct dlock_target *target, struct dlock_error *err)
{
    struct resp_config both[2] = {*config, service->sentinel};
    enum dlock_status status =
        resp_config_take_tls(both, redis_service_is_named(target) ? 2 : 1, target, err);

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
