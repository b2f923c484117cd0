/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD "abcdefghijklmnopqrstuvwxyz0123456789_"

static enum dlock_status invalid(struct dlock_error *err, const char *text)
{
    return dlock_fail(err, PG_ORIGIN, DLOCK_INVALID, 0, "%s", text);
}

/* For the library a host with a comma is two hosts, and one that begins with '/' or '@' is a
 * socket. */
static bool host_is_plain(const char *host)
{
    return strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789.:-_") == strlen(host);
}

static enum dlock_status host_find(struct pg_config *config, const char *text,
                                   struct dlock_error *err)
{
    if (!address_parse(&config->address, text, PG_DEFAULT_PORT) ||
        !host_is_plain(config->address.host))
        return invalid(err, "want a host, host:port or [v6]:port, with a port from 1 to 65535");
    address_format(&config->address, config->endpoint, sizeof config->endpoint);
    return DLOCK_OK;
}

/* Either "/directory/.s.PGSQL.5433" or "/directory". */
static enum dlock_status socket_find(struct pg_config *config, const char *path,
                                     struct dlock_error *err)
{
    static const char file[] = "/.s.PGSQL.";
    const char *name = strstr(path, file);
    size_t len = name != NULL ? (size_t)(name - path) : strlen(path);
    unsigned long port = PG_DEFAULT_PORT;
    char *end = NULL;

    if (path[0] != '/')
        return invalid(err, "unix_socket= wants an absolute path");
    if (strchr(path, ',') != NULL) /* for the library two hosts */
        return invalid(err, "unix_socket= has no comma");
    if (len >= sizeof config->socket)
        return invalid(err, "unix_socket= has at most 100 bytes");
    if (name != NULL) {
        const char *digits = name + sizeof file - 1;

        port = strtoul(digits, &end, 10);
        if (*digits < '0' || *digits > '9' || *end != '\0' || port == 0 || port > UINT16_MAX)
            return invalid(err, "unix_socket= wants a directory or a file .s.PGSQL.PORT");
    }
    memcpy(config->socket, path, len);
    config->socket[len] = '\0';
    if (len == 0)
        (void)snprintf(config->socket, sizeof config->socket, "/");
    config->address.port = (uint16_t)port;
    (void)snprintf(config->endpoint, sizeof config->endpoint, "%.44s/.s.PGSQL.%lu", config->socket,
                   port);
    return DLOCK_OK;
}

static enum dlock_status peer_find(struct pg_config *config, struct dlock_error *err)
{
    const char *const *hosts = config->target->hosts;
    const char *path = config->target->option(config->target, "unix_socket");
    const bool has_host = hosts != NULL && hosts[0] != NULL;

    if (path != NULL && has_host)
        return invalid(err, "unix_socket= is instead of a host: postgresql://user@/database?...");
    if (path != NULL)
        return socket_find(config, path, err);
    if (!has_host)
        return invalid(err, "want a host, or unix_socket=");
    if (hosts[1] != NULL)
        return invalid(err, "one host only: locks of two servers are two locks");
    return host_find(config, hosts[0], err);
}

/* Without a user the library takes the one of the process or of the environment. */
static enum dlock_status user_find(struct pg_config *config, struct dlock_error *err)
{
    config->user = config->target->user;
    if (config->user == NULL || config->user[0] == '\0')
        return invalid(err, "want a user: postgresql://user@host/database");
    return DLOCK_OK;
}

/* The library takes a database with '=' in it, or one that begins as a URI, for settings. */
static enum dlock_status database_find(struct pg_config *config, struct dlock_error *err)
{
    const char *path = config->target->path;
    size_t len = 0;

    while (*path == '/')
        path++;
    len = strlen(path);
    if (len == 0 || len > PG_NAME_MAX || strpbrk(path, "/=") != NULL)
        return invalid(err, "want the name of a database, of 1 to 63 bytes without '/' and '=', "
                            "after the host: postgresql://user@host/database");
    memcpy(config->database, path, len + 1);
    return DLOCK_OK;
}

/* The text of an option that is part of an identifier. */
static bool word_find(const struct pg_config *config, const char *option, const char *fallback,
                      char *out, size_t size)
{
    const char *word = config->target->option(config->target, option);

    if (word == NULL)
        word = fallback;
    (void)snprintf(out, size, "%s", word);
    return word[0] != '\0' && strlen(word) < size && strspn(word, WORD) == strlen(word);
}

static enum dlock_status names_find(struct pg_config *config, struct dlock_error *err)
{
    if (!word_find(config, "schema", "public", config->schema, sizeof config->schema))
        return invalid(err, "schema= wants 1 to 63 of a-z, 0-9 and _");
    if (!word_find(config, "table_prefix", "dlock_", config->prefix, sizeof config->prefix))
        return invalid(err, "table_prefix= wants 1 to 32 of a-z, 0-9 and _");
    return DLOCK_OK;
}

static enum dlock_status strategy_find(struct pg_config *config, struct dlock_error *err)
{
    static const char *const names[] = {[PG_ROW] = "row", [PG_SESSION] = "session"};
    const char *name = config->target->option(config->target, "strategy");

    if (name == NULL)
        name = names[PG_ROW];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            config->strategy = (enum pg_strategy)i;
            config->strategy_name = names[i];
            return DLOCK_OK;
        }
    }
    return invalid(err, "strategy= is row or session");
}

static enum dlock_status key_find(struct pg_config *config, struct dlock_error *err)
{
    static const char before[] = "advisory:";
    const char *key = config->target->option(config->target, "key");
    const char *digits = key;
    char *end = NULL;

    if (key == NULL)
        return DLOCK_OK;
    if (config->strategy != PG_SESSION)
        return invalid(err, "key= names an advisory lock, and needs strategy=session");
    if (strncmp(key, before, sizeof before - 1) != 0)
        return invalid(err, "key= wants advisory:NUMBER, as in key=advisory:4711");
    digits += sizeof before - 1;
    errno = 0;
    config->number = strtoll(digits, &end, 10);
    if (strspn(digits, "-0123456789") != strlen(digits) || end == digits || *end != '\0' ||
        errno != 0)
        return invalid(err, "key=advisory: wants a whole number in digits, from "
                            "-9223372036854775808 to 9223372036854775807");
    config->has_number = true;
    return DLOCK_OK;
}

static enum dlock_status tls_find(struct pg_config *config, struct dlock_error *err)
{
    const struct dlock_target *target = config->target;
    const struct tls_options *tls = &config->tls_options;
    char why[TLS_WHY_SIZE];
    enum dlock_status status = DLOCK_INTERNAL;

    config->tls = target->number(target, "tls") != 0;
    status = tls_options_take(&config->tls_options, target, PG_ORIGIN,
                              config->tls ? NULL : "tls=on", err);
    if (status != DLOCK_OK || !config->tls)
        return status;
    if (config->socket[0] != '\0')
        return invalid(err, "tls=on is for TCP: the server has no TLS on a unix socket");
    if (tls->verify == TLS_VERIFY_CA && tls->ca == NULL)
        return invalid(err, "verify=ca wants ca=: without it any public authority would do");
    return tls_options_check(tls, why, sizeof why) ? DLOCK_OK : invalid(err, why);
}

enum dlock_status pg_config_init(struct pg_config *config, const struct dlock_target *target,
                                 struct dlock_error *err)
{
    static enum dlock_status (*const steps[])(struct pg_config *, struct dlock_error *) = {
        strategy_find, user_find, peer_find, database_find, names_find, key_find, tls_find};
    const char *create = target->option(target, "create");
    enum dlock_status status = DLOCK_OK;

    *config = (struct pg_config){
        .target = target,
        .create = create == NULL || target->number(target, "create") != 0,
        .spin = target->number(target, "spin") != 0,
        .grace_ms = target->number(target, "session_grace"),
        .waiter_ttl_ms = target->number(target, "waiter_lease"),
    };
    for (size_t i = 0; status == DLOCK_OK && i < sizeof steps / sizeof steps[0]; i++)
        status = steps[i](config, err);
    return status;
}
