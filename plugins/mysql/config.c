/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 3306

static enum dlock_status invalid(struct dlock_error *err, const char *text)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_INVALID, 0, "%s", text);
}

/* For the library a host may have options after ';', or be several hosts. */
static bool host_is_plain(const char *host)
{
    return host[0] != '\0' && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789.:-") == strlen(host);
}

static enum dlock_status port_parse(struct my_config *config, const char *text,
                                    struct dlock_error *err)
{
    char *end = NULL;
    unsigned long port = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || port == 0 || port > 65535)
        return invalid(err, "want a port from 1 to 65535");
    config->port = (unsigned)port;
    return DLOCK_OK;
}

/* "host", "host:port", "[v6]", "[v6]:port" */
static enum dlock_status host_parse(struct my_config *config, const char *text,
                                    struct dlock_error *err)
{
    bool bracket = text[0] == '[';
    size_t len = bracket ? strcspn(text, "]") : strcspn(text, ":");
    const char *rest = text + len + (bracket && text[len] != '\0');
    unsigned char address[16];

    config->port = DEFAULT_PORT;
    if (len - (size_t)bracket >= sizeof config->host)
        return invalid(err, "the host name is too long");
    memcpy(config->host, text + bracket, len - (size_t)bracket);
    if (!host_is_plain(config->host))
        return invalid(err, "a host is a name, an IPv4 address or an IPv6 address in brackets");
    config->numeric = inet_pton(AF_INET, config->host, address) == 1 ||
                      inet_pton(AF_INET6, config->host, address) == 1;
    (void)snprintf(config->endpoint, sizeof config->endpoint, bracket ? "[%.40s]" : "%.54s",
                   config->host);
    if (*rest == ':') {
        enum dlock_status status = port_parse(config, rest + 1, err);

        if (status != DLOCK_OK)
            return status;
    }
    len = strlen(config->endpoint);
    (void)snprintf(config->endpoint + len, sizeof config->endpoint - len, ":%u", config->port);
    return DLOCK_OK;
}

/* Without one the library takes the user of the process or one that the environment names. */
static enum dlock_status user_find(struct my_config *config, struct dlock_error *err)
{
    config->user = config->target->user;
    if (config->user == NULL || config->user[0] == '\0')
        return invalid(err, "want a user: mysql://user@host/database");
    return DLOCK_OK;
}

static enum dlock_status peer_find(struct my_config *config, struct dlock_error *err)
{
    const char *const *hosts = config->target->hosts;

    if (config->socket != NULL) {
        if (config->socket[0] != '/')
            return invalid(err, "unix_socket= wants an absolute path");
        if (hosts != NULL && hosts[0] != NULL)
            return invalid(err, "unix_socket= is instead of a host: mysql://user@/database?...");
        (void)snprintf(config->endpoint, sizeof config->endpoint, "%s", config->socket);
        return DLOCK_OK;
    }
    if (hosts == NULL || hosts[0] == NULL)
        return invalid(err, "want a host, or unix_socket=");
    if (hosts[1] != NULL)
        return invalid(err, "one host only: locks of two servers are two locks");
    return host_parse(config, hosts[0], err);
}

static enum dlock_status database_find(struct my_config *config, struct dlock_error *err)
{
    const char *path = config->target->path;
    size_t len = 0;

    while (*path == '/')
        path++;
    len = strlen(path);
    if (len == 0 || len >= sizeof config->database || strchr(path, '/') != NULL)
        return invalid(err, "want the name of a database after the host: mysql://host/database");
    memcpy(config->database, path, len + 1);
    return DLOCK_OK;
}

static enum dlock_status prefix_find(struct my_config *config, struct dlock_error *err)
{
    const char *prefix = config->target->option(config->target, "table_prefix");

    if (prefix == NULL)
        prefix = "dlock_";
    if (prefix[0] == '\0' || strlen(prefix) > MY_PREFIX_MAX ||
        strspn(prefix, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(prefix))
        return invalid(err, "table_prefix= wants 1 to 32 of a-z, 0-9 and _");
    (void)snprintf(config->prefix, sizeof config->prefix, "%s", prefix);
    return DLOCK_OK;
}

static enum dlock_status tls_find(struct my_config *config, struct dlock_error *err)
{
    const struct dlock_target *target = config->target;
    const struct tls_options *tls = &config->tls_options;
    char why[TLS_WHY_SIZE];
    enum dlock_status status = DLOCK_INTERNAL;

    config->tls = target->number(target, "tls") != 0;
    status = tls_options_take(&config->tls_options, target, MY_ORIGIN,
                              config->tls ? NULL : "tls=on", err);
    if (status != DLOCK_OK || !config->tls)
        return status;
    if (config->socket != NULL)
        return invalid(err, "tls=on wants a host: over a socket the library may leave TLS out");
    if (tls->verify == TLS_VERIFY_CA && tls->ca == NULL)
        return invalid(err, "verify=ca wants ca=: without it the library checks no certificate");
    return tls_options_check(tls, why, sizeof why) ? DLOCK_OK : invalid(err, why);
}

static enum dlock_status strategy_find(struct my_config *config, struct dlock_error *err)
{
    static const char *const names[] = {
        [MY_ROW] = "row", [MY_INSERT] = "insert", [MY_SESSION] = "session"};
    const char *name = config->target->option(config->target, "strategy");

    if (name == NULL)
        name = names[MY_ROW];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            config->strategy = (enum my_strategy)i;
            config->strategy_name = names[i];
            return DLOCK_OK;
        }
    }
    return invalid(err, "strategy= is row, insert or session");
}

enum dlock_status my_config_init(struct my_config *config, const struct dlock_target *target,
                                 struct dlock_error *err)
{
    const char *create = target->option(target, "create");
    enum dlock_status status = DLOCK_INTERNAL;

    *config = (struct my_config){
        .target = target,
        .socket = target->option(target, "unix_socket"),
        .create = create == NULL || target->number(target, "create") != 0,
        .galera = target->number(target, "unsafe_galera") != 0,
        .spin = target->number(target, "spin") != 0,
        .grace_ms = target->number(target, "session_grace"),
    };
    status = strategy_find(config, err);
    if (status == DLOCK_OK)
        status = user_find(config, err);
    if (status == DLOCK_OK)
        status = peer_find(config, err);
    if (status == DLOCK_OK)
        status = database_find(config, err);
    if (status == DLOCK_OK)
        status = prefix_find(config, err);
    if (status == DLOCK_OK)
        status = tls_find(config, err);
    return status;
}
