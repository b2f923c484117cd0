/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <strings.h>

#define TTL_MS 30000 /* without ttl= */

static enum dlock_status refuse(struct dlock_error *err, const char *why)
{
    return dlock_fail(err, ZK_ORIGIN, DLOCK_INVALID, 0, "%s", why);
}

/* ---- servers ---- */

static bool is_known(const struct zk_config *config, const struct address *address)
{
    for (size_t i = 0; i < config->count; i++)
        if (config->servers[i].port == address->port &&
            strcasecmp(config->servers[i].host, address->host) == 0)
            return true;
    return false;
}

static enum dlock_status servers_init(struct zk_config *config, struct dlock_error *err)
{
    for (const char *const *host = config->target->hosts; *host != NULL; host++) {
        struct address address;

        if (!address_parse(&address, *host, ZK_PORT))
            return dlock_fail(err, ZK_ORIGIN, DLOCK_INVALID, 0,
                              "host '%.60s': it is not one that can be looked up", *host);
        if (is_known(config, &address))
            return dlock_fail(err, ZK_ORIGIN, DLOCK_INVALID, 0, "host '%.60s' is there twice",
                              *host);
        if (config->count == ZK_SERVERS_MAX)
            return dlock_fail(err, ZK_ORIGIN, DLOCK_INVALID, 0, "more than %d hosts",
                              ZK_SERVERS_MAX);
        config->servers[config->count++] = address;
    }
    if (config->count == 0)
        return refuse(err, "want a host, as in zk://127.0.0.1:2181");
    return DLOCK_OK;
}

/* ---- base ---- */

/* NULL: ZooKeeper takes it. text begins with a slash, and does not end with one. */
static const char *base_fault(const char *text)
{
    if (strcmp(text, "/zookeeper") == 0 || strncmp(text, "/zookeeper/", 11) == 0)
        return "the path is below /zookeeper, which belongs to the servers";
    for (const char *at = text; *at != '\0'; at++) {
        const size_t len = strcspn(at + 1, "/");

        if (*at < ' ' || *at > '~')
            return "the path, which is that of a node, may have printable ASCII only";
        if (*at != '/')
            continue;
        if (len == 0)
            return "the path has an empty element";
        if (at[1] == '.' && (len == 1 || (len == 2 && at[2] == '.')))
            return "the path has an element '.' or '..'";
    }
    return NULL;
}

static enum dlock_status base_init(struct zk_config *config, struct dlock_error *err)
{
    const char *path = config->target->path[0] != '\0' ? config->target->path : ZK_BASE;
    const char *fault = NULL;
    size_t len = strlen(path);

    if (path[len - 1] == '/')
        len--;
    if (len > ZK_BASE_MAX)
        return dlock_fail(err, ZK_ORIGIN, DLOCK_INVALID, 0,
                          "the path has %zu bytes; as that of a node it may have %d", len,
                          ZK_BASE_MAX);
    memcpy(config->base, path, len);
    config->base[len] = '\0';
    config->base_len = len;
    fault = base_fault(config->base);
    return fault == NULL ? DLOCK_OK : refuse(err, fault);
}

/* ---- user and options ---- */

static enum dlock_status user_init(struct zk_config *config, struct dlock_error *err)
{
    const struct dlock_target *target = config->target;
    const char *acl = target->option(target, "acl");

    config->user = target->user;
    config->creator_acl = acl != NULL ? strcmp(acl, "creator") == 0 : target->user != NULL;
    if (target->user == NULL && target->password != NULL)
        return refuse(err, "a password is for a user, as in zk://user@host with pass_file=");
    if (target->user != NULL && target->user[0] == '\0')
        return refuse(err, "the name of the user is empty");
    if (target->user != NULL && strchr(target->user, ':') != NULL)
        return refuse(err, "the name of the user has a colon, which ends it for the servers");
    if (target->user != NULL && target->password == NULL)
        return refuse(err, "the user has no password: give pass_file= or pass_env=");
    if (config->creator_acl && target->user == NULL)
        return refuse(err, "acl=creator needs a user, as in zk://user@host with pass_file=");
    return DLOCK_OK;
}

static enum zk_recipe recipe_of(const char *text)
{
    if (text != NULL && strcmp(text, "curator") == 0)
        return ZK_CURATOR;
    if (text != NULL && strcmp(text, "kazoo") == 0)
        return ZK_KAZOO;
    return ZK_CURATOR_RW;
}

enum dlock_status zk_config_init(struct zk_config *config, const struct dlock_target *target,
                                 struct dlock_error *err)
{
    const char *key = target->option(target, "key");
    const int64_t ttl_ms = target->number(target, "ttl");
    enum dlock_status status = DLOCK_INTERNAL;

    *config = (struct zk_config){
        .target = target,
        .recipe = recipe_of(target->option(target, "recipe")),
        .raw = key != NULL && strcmp(key, "raw") == 0,
        .ttl_ms = ttl_ms > 0 ? ttl_ms : TTL_MS,
        .tick_ms = target->number(target, "tick"),
    };
    status = servers_init(config, err);
    if (status == DLOCK_OK)
        status = base_init(config, err);
    if (status == DLOCK_OK)
        status = user_init(config, err);
    return status;
}
