/* SPDX-License-Identifier: MIT */
#include "address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REDIS_PORT      6379
#define MYSQL_PORT      3306
#define POSTGRESQL_PORT 5432
#define ETCD_PORT       2379
#define ZOOKEEPER_PORT  2181

/* Copies up to length bytes and decodes percent signs. The rest that does not fit is left out. */
static void decode(char *out, size_t size, const char *text, size_t length)
{
    size_t used = 0;

    for (size_t i = 0; i < length && used + 1 < size; i++) {
        char hex[3] = {0};

        if (text[i] == '%' && i + 2 < length) {
            memcpy(hex, text + i + 1, 2);
            out[used++] = (char)strtol(hex, NULL, 16);
            i += 2;
        } else {
            out[used++] = text[i];
        }
    }
    out[used] = '\0';
}

static int option(const char *query, const char *name, char *out, size_t size)
{
    size_t length = strlen(name);

    while (query != NULL && *query != '\0') {
        const char *end = strchr(query + 1, '&');

        query++; /* the ? or & */
        if (strncmp(query, name, length) == 0 && query[length] == '=') {
            const char *value = query + length + 1;

            decode(out, size, value, end != NULL ? (size_t)(end - value) : strlen(value));
            return 1;
        }
        query = end;
    }
    return 0;
}

static enum bench_kind kind_of(const char *scheme, size_t length, const char *query, int *plain)
{
    static const struct {
        const char *scheme;
        enum bench_kind kind;
        int plain;
    } known[] = {
        {"memory", BENCH_MEMORY, 1},
        {"sqlite", BENCH_SQLITE, 1},
        {"redis", BENCH_REDIS, 1},
        {"valkey", BENCH_REDIS, 1},
        {"redis+unix", BENCH_REDIS, 1},
        {"valkey+unix", BENCH_REDIS, 1},
        {"rediss", BENCH_REDIS, 0},
        {"valkeys", BENCH_REDIS, 0},
        {"redlock", BENCH_REDLOCK, 1},
        {"redlocks", BENCH_REDLOCK, 0},
        {"mysql", BENCH_MYSQL, 1},
        {"mariadb", BENCH_MYSQL, 1},
        {"postgresql", BENCH_POSTGRESQL, 1},
        {"postgres", BENCH_POSTGRESQL, 1},
        {"etcd", BENCH_ETCD, 1},
        {"etcds", BENCH_ETCD, 0},
        {"zk", BENCH_ZOOKEEPER, 1},
        {"zookeeper", BENCH_ZOOKEEPER, 1},
    };
    char word[32] = "";

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].scheme) != length || strncmp(known[i].scheme, scheme, length) != 0)
            continue;
        *plain = known[i].plain;
        if (known[i].kind < BENCH_MYSQL || known[i].kind >= BENCH_ETCD)
            return known[i].kind;
        if (option(query, "tls", word, sizeof word))
            *plain = strcmp(word, "off") == 0;
        (void)option(query, "strategy", word, sizeof word);
        return strcmp(word, "session") == 0 ? known[i].kind + 1 : known[i].kind;
    }
    *plain = 0;
    return BENCH_OTHER;
}

static void take_user(struct bench_address *address, const char *text, size_t length)
{
    const char *colon = memchr(text, ':', length);
    size_t user = colon != NULL ? (size_t)(colon - text) : length;

    decode(address->user, sizeof address->user, text, user);
    if (colon != NULL)
        decode(address->password, sizeof address->password, colon + 1, length - user - 1);
}

static int port_of(enum bench_kind kind)
{
    if (kind == BENCH_ETCD)
        return ETCD_PORT;
    if (kind == BENCH_ZOOKEEPER)
        return ZOOKEEPER_PORT;
    if (kind == BENCH_POSTGRESQL || kind == BENCH_POSTGRESQL_SESSION)
        return POSTGRESQL_PORT;
    return kind == BENCH_MYSQL || kind == BENCH_MYSQL_SESSION ? MYSQL_PORT : REDIS_PORT;
}

static void take_host(struct bench_address *address, const char *text, size_t length)
{
    struct bench_host *host = &address->host[address->hosts];
    const char *colon = NULL;
    size_t name = 0;

    if (length == 0)
        return;
    address->nodes++;
    if (address->hosts == BENCH_HOSTS_MAX)
        return;
    address->hosts++;
    host->port = port_of(address->kind);
    if (text[0] == '[') {
        const char *end = memchr(text, ']', length);

        name = end != NULL ? (size_t)(end - text) : length;
        decode(host->name, sizeof host->name, text + 1, name - 1);
        colon = end != NULL && (size_t)(end - text) + 1 < length ? end + 1 : NULL;
    } else {
        colon = memchr(text, ':', length);
        name = colon != NULL ? (size_t)(colon - text) : length;
        decode(host->name, sizeof host->name, text, name);
    }
    if (colon != NULL)
        host->port = (int)strtol(colon + 1, NULL, 10);
}

static void take_authority(struct bench_address *address, const char *text, size_t length)
{
    const char *at = memchr(text, '@', length), *end = text + length;

    if (at != NULL) {
        take_user(address, text, (size_t)(at - text));
        text = at + 1;
    }
    while (text < end) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *stop = comma != NULL ? comma : end;

        take_host(address, text, (size_t)(stop - text));
        text = stop + 1;
    }
}

int bench_address_parse(const char *uri, struct bench_address *address)
{
    const char *colon = strchr(uri, ':'), *query = strchr(uri, '?'), *at = NULL;
    const char *end = query != NULL ? query : uri + strlen(uri);
    char *path = address->path;

    memset(address, 0, sizeof *address);
    if (colon == NULL || colon > end)
        return -1;
    address->kind = kind_of(uri, (size_t)(colon - uri), query, &address->plain);
    at = colon + 1;
    if (strncmp(at, "//", 2) == 0) {
        const char *slash = memchr(at + 2, '/', (size_t)(end - at - 2));
        const char *stop = slash != NULL ? slash : end;

        take_authority(address, at + 2, (size_t)(stop - at - 2));
        at = stop;
    }
    decode(path, sizeof address->path, at, (size_t)(end - at));
    if (address->nodes != 0)
        (void)snprintf(address->database, sizeof address->database, "%.60s", path + (*path == '/'));
    else if (memchr(uri, '+', (size_t)(colon - uri)) != NULL)
        (void)snprintf(address->socket, sizeof address->socket, "%s", path);
    if (option(query, "unix_socket", address->socket, sizeof address->socket))
        (void)snprintf(address->database, sizeof address->database, "%.60s", path + (*path == '/'));
    (void)option(query, "db", address->database, sizeof address->database);
    return 0;
}

void *bench_address_open(const struct bench_config *config, char *why)
{
    struct bench_address *address = calloc(1, sizeof *address);

    if (address != NULL && bench_address_parse(config->uri, address) == 0)
        return address;
    (void)snprintf(why, BENCH_WHY_SIZE, address != NULL ? "not a URI" : "no memory");
    free(address);
    return NULL;
}

const char *bench_address_show(const char *uri, char *text, size_t size)
{
    const char *query = strchr(uri, '?'), *slashes = strstr(uri, "://");
    int length = query != NULL ? (int)(query - uri) : (int)strlen(uri);
    const char *at = memchr(uri, '@', (size_t)length);
    int scheme = at != NULL && slashes != NULL ? (int)(slashes - uri) + 3 : 0;
    int from = scheme != 0 ? (int)(at - uri) + 1 : 0;

    (void)snprintf(text, size, "%.*s%.*s", scheme, uri, length - from, uri + from);
    return text;
}
