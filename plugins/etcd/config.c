/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <strings.h>

static enum dlock_status refuse(struct dlock_error *err, const char *why)
{
    return dlock_fail(err, ETCD_ORIGIN, DLOCK_INVALID, 0, "%s", why);
}

static bool is_known(const struct etcd_config *config, const struct address *address)
{
    for (size_t i = 0; i < config->count; i++)
        if (config->members[i].port == address->port &&
            strcasecmp(config->members[i].host, address->host) == 0)
            return true;
    return false;
}

static enum dlock_status members_init(struct etcd_config *config, const struct dlock_target *target,
                                      struct dlock_error *err)
{
    for (const char *const *host = target->hosts; *host != NULL; host++) {
        struct address address;

        if (!address_parse(&address, *host, ETCD_PORT))
            return dlock_fail(err, ETCD_ORIGIN, DLOCK_INVALID, 0,
                              "host '%.60s': it is not one that can be looked up", *host);
        if (is_known(config, &address))
            return dlock_fail(err, ETCD_ORIGIN, DLOCK_INVALID, 0, "host '%.60s' is there twice",
                              *host);
        if (config->count == ETCD_MEMBERS_MAX)
            return dlock_fail(err, ETCD_ORIGIN, DLOCK_INVALID, 0, "more than %d hosts",
                              ETCD_MEMBERS_MAX);
        config->members[config->count++] = address;
    }
    if (config->count == 0)
        return refuse(err, "want a host, as in etcd://127.0.0.1:2379");
    return DLOCK_OK;
}

/* "/" is no prefix, and a slash at the end is not doubled. */
static enum dlock_status prefix_init(struct etcd_config *config, const char *path,
                                     struct dlock_error *err)
{
    size_t len = 0;

    if (*path == '/')
        path++;
    len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    if (len > ETCD_PREFIX_MAX)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_INVALID, 0,
                          "the path has %zu bytes; as a prefix of keys it may have %d", len,
                          ETCD_PREFIX_MAX);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)path[i] < ' ' || path[i] == '\x7f')
            return refuse(err, "the path, as a prefix of keys, may have no control characters");
    memcpy(config->prefix, path, len);
    if (len > 0)
        config->prefix[len++] = '/';
    config->prefix_len = len;
    return DLOCK_OK;
}

static enum dlock_status user_init(struct etcd_config *config, const struct dlock_target *target,
                                   struct dlock_error *err)
{
    config->user = target->user;
    if (target->user == NULL && target->password != NULL)
        return refuse(err, "a password is for a user, as in etcd://user@host with pass_file=");
    if (target->user != NULL && target->user[0] == '\0')
        return refuse(err, "the name of the user is empty");
    return DLOCK_OK;
}

enum dlock_status etcd_config_init(struct etcd_config *config, const struct dlock_target *target,
                                   struct dlock_error *err)
{
    const char *key = target->option(target, "key");
    const char *scale = target->option(target, "fence_scale");
    enum dlock_status status = DLOCK_INTERNAL;

    *config = (struct etcd_config){
        .target = target,
        .raw = key != NULL && strcmp(key, "raw") == 0,
        .secure = strcmp(target->scheme, "etcds") == 0,
        .sni = target->option(target, "sni"),
        .waiter_lease_ms = target->number(target, "waiter_lease"),
        .fence_scale = scale != NULL && strcmp(scale, "1") == 0 ? 1 : 32,
    };
    status = members_init(config, target, err);
    if (status == DLOCK_OK)
        status = prefix_init(config, target->path, err);
    if (status == DLOCK_OK)
        status = user_init(config, target, err);
    if (status == DLOCK_OK)
        status = tls_options_take(&config->tls, target, ETCD_ORIGIN,
                                  config->secure ? NULL : "etcds:// and not etcd://", err);
    config->tls.alpn = "h2";
    return status;
}
