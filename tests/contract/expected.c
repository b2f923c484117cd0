/* SPDX-License-Identifier: MIT */
#include "expected.h"

#include <dlock/types.h>
#include <stdio.h>
#include <string.h>

#define REDIS_CAPS                                                                \
    (DLOCK_CAP_FENCE | DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_WATCH | \
     DLOCK_CAP_QUEUE | DLOCK_CAP_CONCURRENT | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA)
#define MYSQL_ROWS                                                                        \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | \
     DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA)

#define POSTGRESQL_ROWS                                                                            \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE |          \
     DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | \
     DLOCK_CAP_DATA)

#define ETCD_CAPS                                                                         \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | \
     DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_CONCURRENT |    \
     DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA)

#define ZOOKEEPER_CAPS                                                                     \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | DLOCK_CAP_CRASH_SAFE | \
     DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_CONCURRENT | DLOCK_CAP_TETHERED |       \
     DLOCK_CAP_LIMIT | DLOCK_CAP_DATA)

#define REDLOCK_CAPS (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_WATCH)

static const struct {
    const char *scheme;
    const char *option; /* "name=value" that the query has to hold; NULL: any URI. First match */
    int is_private;
    uint64_t caps;
} schemes[] = {
    {"memory", NULL, 1,
     DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE |
         DLOCK_CAP_CONCURRENT | DLOCK_CAP_PRIVATE | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP |
         DLOCK_CAP_DATA},
    {"sqlite", "sync=full", 0,
     DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE |
         DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_LIMIT |
         DLOCK_CAP_KEEP | DLOCK_CAP_DATA | DLOCK_CAP_NO_TTL},
    {"sqlite", NULL, 0,
     DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_CRASH_SAFE |
         DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA |
         DLOCK_CAP_NO_TTL},
    {"redis", "key=raw", 0,
     DLOCK_CAP_FENCE | DLOCK_CAP_CONCURRENT | DLOCK_CAP_DATA}, /* with restart_guard=0 */
    {"redis", "restart_guard=0", 0, REDIS_CAPS},
    {"rediss", "restart_guard=0", 0, REDIS_CAPS},
    {"redis+sentinel", "restart_guard=0", 0, REDIS_CAPS},
    {"redis+sentinel", "failover=unsafe", 0, REDIS_CAPS},
    {"redis+sentinel", NULL, 0, REDIS_CAPS | DLOCK_CAP_FAILOVER_SAFE},
    {"redis+cluster", "restart_guard=0", 0, REDIS_CAPS},
    {"redis+cluster", "failover=unsafe", 0, REDIS_CAPS},
    {"redis+cluster", NULL, 0, REDIS_CAPS | DLOCK_CAP_FAILOVER_SAFE},
    {"rediss+sentinel", NULL, 0, REDIS_CAPS},
    {"redis+unix", "restart_guard=0", 0, REDIS_CAPS},
    {"valkey", "restart_guard=0", 0, REDIS_CAPS},
    {"valkeys", "restart_guard=0", 0, REDIS_CAPS},
    {"valkey+unix", "restart_guard=0", 0, REDIS_CAPS},
    {"redis", NULL, 0, REDIS_CAPS | DLOCK_CAP_CRASH_SAFE},
    {"rediss", NULL, 0, REDIS_CAPS | DLOCK_CAP_CRASH_SAFE},
    {"redis+unix", NULL, 0, REDIS_CAPS | DLOCK_CAP_CRASH_SAFE},
    {"valkey", NULL, 0, REDIS_CAPS | DLOCK_CAP_CRASH_SAFE},
    {"valkeys", NULL, 0, REDIS_CAPS | DLOCK_CAP_CRASH_SAFE},
    {"valkey+unix", NULL, 0, REDIS_CAPS | DLOCK_CAP_CRASH_SAFE},
    {"redlock", "restart_guard=0&fence=on", 0, REDLOCK_CAPS | DLOCK_CAP_FENCE},
    {"redlock", "restart_guard=0", 0, REDLOCK_CAPS},
    {"redlocks", "restart_guard=0", 0, REDLOCK_CAPS},
    {"redlock", NULL, 0, REDLOCK_CAPS | DLOCK_CAP_CRASH_SAFE},
    {"redlocks", NULL, 0, REDLOCK_CAPS | DLOCK_CAP_CRASH_SAFE},
    {"mysql", "strategy=session", 0,
     DLOCK_CAP_RWLOCK | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | DLOCK_CAP_NATIVE_WAIT |
         DLOCK_CAP_SESSION},
    {"mysql", NULL, 0, MYSQL_ROWS},
    {"mariadb", NULL, 0, MYSQL_ROWS},
    {"postgresql", "strategy=session", 0,
     DLOCK_CAP_RWLOCK | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | DLOCK_CAP_NATIVE_WAIT |
         DLOCK_CAP_SESSION},
    {"postgresql", NULL, 0, POSTGRESQL_ROWS},
    {"postgres", NULL, 0, POSTGRESQL_ROWS},
    {"etcd", "key=raw", 0, ETCD_CAPS & ~DLOCK_CAP_LIMIT},
    {"etcd", NULL, 0, ETCD_CAPS},
    {"etcds", NULL, 0, ETCD_CAPS},
    {"zookeeper", "recipe=curator", 0, ZOOKEEPER_CAPS & ~DLOCK_CAP_RWLOCK},
    {"zk", "recipe=curator", 0, ZOOKEEPER_CAPS & ~DLOCK_CAP_RWLOCK},
    {"zookeeper", NULL, 0, ZOOKEEPER_CAPS},
    {"zk", NULL, 0, ZOOKEEPER_CAPS},
};

static const struct {
    const char *name;
    uint64_t bit;
} names[] = {
    {"RWLOCK", DLOCK_CAP_RWLOCK},
    {"DOWNGRADE", DLOCK_CAP_DOWNGRADE},
    {"FENCE", DLOCK_CAP_FENCE},
    {"FENCE_DURABLE", DLOCK_CAP_FENCE_DURABLE},
    {"CRASH_SAFE", DLOCK_CAP_CRASH_SAFE},
    {"NATIVE_WAIT", DLOCK_CAP_NATIVE_WAIT},
    {"WATCH", DLOCK_CAP_WATCH},
    {"QUEUE", DLOCK_CAP_QUEUE},
    {"SESSION", DLOCK_CAP_SESSION},
    {"CONCURRENT", DLOCK_CAP_CONCURRENT},
    {"PRIVATE", DLOCK_CAP_PRIVATE},
    {"TETHERED", DLOCK_CAP_TETHERED},
    {"LIMIT", DLOCK_CAP_LIMIT},
    {"KEEP", DLOCK_CAP_KEEP},
    {"DATA", DLOCK_CAP_DATA},
    {"NO_TTL", DLOCK_CAP_NO_TTL},
    {"FAILOVER_SAFE", DLOCK_CAP_FAILOVER_SAFE},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define CAP_COUNT(name) +1
_Static_assert(COUNT(names) == 0 DLOCK_CAP_MAP(CAP_COUNT), "a capability has no name");
#undef CAP_COUNT

static int query_has(const char *uri, const char *option)
{
    const char *query = strchr(uri, '?');
    size_t len = strlen(option);

    for (; query != NULL; query = strchr(query + 1, '&')) {
        if (strncmp(query + 1, option, len) == 0 && strchr("&#", query[1 + len]) != NULL)
            return 1; /* strchr finds the final NUL, too */
    }
    return 0;
}

static int scheme_find(const char *uri)
{
    size_t len = strcspn(uri, ":");

    for (size_t i = 0; i < COUNT(schemes); i++) {
        if (strlen(schemes[i].scheme) == len && strncmp(schemes[i].scheme, uri, len) == 0 &&
            (schemes[i].option == NULL || query_has(uri, schemes[i].option)))
            return (int)i;
    }
    return -1;
}

int dlt_expected_caps(const char *uri, uint64_t *caps)
{
    int i = scheme_find(uri);

    if (i < 0)
        return 0;
    *caps = schemes[i].caps;
    return 1;
}

int dlt_expected_private(const char *uri)
{
    int i = scheme_find(uri);

    return i >= 0 && schemes[i].is_private;
}

static uint64_t bit_find(const char *word, size_t len)
{
    for (size_t i = 0; i < COUNT(names); i++) {
        if (strlen(names[i].name) == len && strncmp(names[i].name, word, len) == 0)
            return names[i].bit;
    }
    return 0;
}

int dlt_caps_parse(const char *list, uint64_t *caps, char *bad, size_t bad_size)
{
    *caps = 0;
    if (strcmp(list, "none") == 0)
        return 0;
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        uint64_t bit = bit_find(list, len);

        if (bit == 0) {
            (void)snprintf(bad, bad_size, "%.*s", (int)len, list);
            return -1;
        }
        *caps |= bit;
        list += len;
        list += *list == ',';
    }
    return 0;
}

const char *dlt_caps_format(uint64_t caps, char *out, size_t size)
{
    size_t used = 0;

    (void)snprintf(out, size, "none");
    for (size_t i = 0; i < COUNT(names) && used < size; i++) {
        if (caps & names[i].bit)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? "," : "",
                                     names[i].name);
    }
    return out;
}
