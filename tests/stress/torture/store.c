/* SPDX-License-Identifier: MIT */
#include "store.h"
#include "store_command.h"
#include "through.h"

#include <poll.h>
#include <skew.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A session lasts three ticks longer than the ttl, and its end is noticed by the tick. */
#define ZK_SESSION_MS (1000 + 5 * DLT_ZK_TICK_MS)

static const struct backend backends[] = {
    {.name = "memory", .kind = STORE_MEMORY, .fences = true, .place_ms = 1000},
    {.name = "sqlite", .kind = STORE_SQLITE, .fences = true, .place_ms = 1000},
    {.name = "redis", .kind = STORE_REDIS, .nodes = 1, .fences = true, .place_ms = 1000},
    {.name = "redlock", .kind = STORE_REDIS, .nodes = 3, .majority = true, .place_ms = 1000},
    {.name = "redlock-fence",
     .kind = STORE_REDIS,
     .nodes = 3,
     .majority = true,
     .fences = true,
     .place_ms = 1000},
    {.name = "redis-sentinel",
     .kind = STORE_SENTINEL,
     .nodes = 1,
     .fences = true,
     .place_ms = 1000},
    {.name = "redis-cluster", .kind = STORE_CLUSTER, .nodes = 1, .fences = true, .place_ms = 1000},
    {.name = "mysql-row",
     .kind = STORE_MYSQL,
     .strategy = "row",
     .nodes = 1,
     .fences = true,
     .place_ms = 3000},
    {.name = "mysql-insert",
     .kind = STORE_MYSQL,
     .strategy = "insert",
     .nodes = 1,
     .fences = true,
     .place_ms = 3000},
    {.name = "mysql-session",
     .kind = STORE_MYSQL,
     .strategy = "session",
     .nodes = 1,
     .session = true,
     .fences = true,
     .lease_ms = SESSION_GRACE_MS,
     .place_ms = 3000},
    {.name = "postgresql-row",
     .kind = STORE_POSTGRESQL,
     .strategy = "row",
     .nodes = 1,
     .fences = true,
     .place_ms = 1000},
    {.name = "postgresql-session",
     .kind = STORE_POSTGRESQL,
     .strategy = "session",
     .nodes = 1,
     .session = true,
     .fences = true,
     .lease_ms = SESSION_GRACE_MS,
     .place_ms = 3000},
    {.name = "etcd", .kind = STORE_ETCD, .nodes = 1, .fences = true, .place_ms = 1500},
    {.name = "etcd3", .kind = STORE_ETCD, .nodes = 3, .fences = true, .place_ms = 1500},
    {.name = "zookeeper",
     .kind = STORE_ZOOKEEPER,
     .nodes = 1,
     .fences = true,
     .lease_ms = ZK_SESSION_MS,
     .place_ms = ZK_SESSION_MS},
    {.name = "zookeeper3",
     .kind = STORE_ZOOKEEPER,
     .nodes = 3,
     .fences = true,
     .lease_ms = ZK_SESSION_MS,
     .place_ms = ZK_SESSION_MS},
};

#define BACKENDS (sizeof backends / sizeof backends[0])

const struct backend *backend_find(const char *name)
{
    for (size_t i = 0; i < BACKENDS; i++)
        if (strcmp(backends[i].name, name) == 0)
            return &backends[i];
    return NULL;
}

const char *backend_names(void)
{
    static char names[256];
    size_t used = 0;

    for (size_t i = 0; i < BACKENDS && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                                 backends[i].name);
    return names;
}

/* ---- servers ---- */

static bool redis_start(struct store *store, unsigned node, const struct store_options *options)
{
    static const char *const durable[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    /* A majority has a guard instead. */
    bool forgets = options->forgets || options->backend->majority;
    bool right = dlt_redis_start(&store->redis[node], forgets ? NULL : durable);

    if (!right)
        (void)snprintf(store->why, sizeof store->why, "%s", store->redis[node].why);
    return right;
}

static bool started(struct store *store, bool right, const char *why)
{
    if (!right)
        (void)snprintf(store->why, sizeof store->why, "%s", why);
    return right;
}

static bool maria_start(struct store *store)
{
    return started(store, dlt_maria_start(&store->maria, NULL), store->maria.why);
}

/* The server may be of another user, which has to reach the file of its clocks. */
static bool postgres_start(struct store *store, const struct store_options *options)
{
    bool right = options->clocks == NULL ||
                 (chmod(options->clocks, 0666) == 0 && chmod(options->directory, 0711) == 0);

    right = right && dlt_postgres_start(&store->postgres, NULL);
    return started(store, right, store->postgres.why);
}

static bool etcd_start(struct store *store)
{
    return started(store, dlt_etcd_start_cluster(&store->etcd, store->backend->nodes, NULL),
                   store->etcd.why);
}

static bool zk_start(struct store *store)
{
    bool right = store->backend->nodes > 1
                     ? dlt_zk_start_linked(&store->zk, store->backend->nodes, NULL)
                     : dlt_zk_start(&store->zk, NULL);

    return started(store, right, store->zk.why);
}

static bool servers_start(struct store *store, const struct store_options *options)
{
    bool right = options->clocks == NULL || dlt_skew_preload(options->clocks);

    if (store->backend->kind == STORE_COMMAND)
        return started(store, store_command_start(store), "the command of --start-cmd failed");
    if (store_fails_over(store->backend))
        return right && store_failover_start(store);
    if (store->backend->kind == STORE_MYSQL)
        return right && maria_start(store);
    if (store->backend->kind == STORE_POSTGRESQL)
        return right && postgres_start(store, options);
    if (store->backend->kind == STORE_ETCD)
        return right && etcd_start(store);
    if (store->backend->kind == STORE_ZOOKEEPER)
        return right && zk_start(store);
    for (unsigned i = 0; right && i < store->backend->nodes; i++)
        right = redis_start(store, i, options);
    return right;
}

static const char *address_of(const struct store *store, unsigned node)
{
    switch (store->backend->kind) {
    case STORE_COMMAND:
        return store_command_address();
    case STORE_MYSQL:
        return store->maria.address;
    case STORE_POSTGRESQL:
        return store->postgres.address;
    case STORE_ETCD:
        return store->etcd.members[node].address;
    case STORE_ZOOKEEPER:
        return store->zk.members[node].address;
    default:
        return store->redis[node].address;
    }
}

static bool ways_start(struct store *store)
{
    static const char *const framings[] = {
        [STORE_REDIS] = "resp", [STORE_MYSQL] = "mysql",         [STORE_POSTGRESQL] = "postgresql",
        [STORE_ETCD] = "http2", [STORE_ZOOKEEPER] = "zookeeper", [STORE_COMMAND] = "raw"};
    const char *framing = framings[store->backend->kind];
    char program[4200];
    const struct dlt_proxy_options options = {.program =
                                                  dlt_through_program(program, sizeof program)};

    for (unsigned client = 0; client < store->clients; client++) {
        for (unsigned node = 0; node < store->backend->nodes; node++) {
            struct dlt_proxy *way = &store->ways[client][node];

            if (!dlt_proxy_start(way, address_of(store, node), framing, &options)) {
                (void)snprintf(store->why, sizeof store->why, "a proxy: %.200s", way->answer);
                return false;
            }
        }
    }
    return true;
}

bool store_start(struct store *store, const struct store_options *options)
{
    *store = (struct store){.backend = options->backend,
                            .clients = options->clients,
                            .guarded = options->guarded,
                            .routed = options->routed && store_fails_over(options->backend),
                            .lone_guard = options->lone_guard,
                            .longest_ms = options->longest_ms,
                            .forgets = options->forgets};
    (void)snprintf(store->directory, sizeof store->directory, "%s", options->directory);
    return servers_start(store, options) &&
           (store_fails_over(store->backend) ||
            (store->backend->kind == STORE_COMMAND && !store_command_can_cut()) ||
            ways_start(store));
}

void store_stop(struct store *store)
{
    for (unsigned client = 0; client < store->clients; client++)
        for (unsigned node = 0; node < store->backend->nodes; node++)
            if (store->ways[client][node].pid > 0)
                (void)dlt_proxy_stop(&store->ways[client][node]);
    for (unsigned node = 0; node < store->backend->nodes; node++)
        if (store->redis[node].pid > 0 || store->redis[node].directory[0] != '\0')
            dlt_redis_stop(&store->redis[node]);
    if (store->maria.directory[0] != '\0')
        dlt_maria_stop(&store->maria);
    if (store->postgres.directory[0] != '\0')
        dlt_postgres_stop(&store->postgres);
    if (store->backend->kind == STORE_COMMAND)
        store_command_stop(store);
    store_failover_stop(store);
    dlt_etcd_stop(&store->etcd);
    dlt_zk_stop(&store->zk);
}

/* ---- what can be done to them ---- */

/* The state letter of a process in /proc; 0: there is none. */
static char process_state(pid_t pid)
{
    char path[64], text[512] = "";
    const char *end;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    (void)!fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end[2] : 0;
}

static pid_t server_pid(const struct store *store, unsigned node)
{
    switch (store->backend->kind) {
    case STORE_MYSQL:
        return store->maria.pid;
    case STORE_POSTGRESQL:
        return store->postgres.pid;
    case STORE_ETCD:
        return store->etcd.members[node].pid;
    case STORE_ZOOKEEPER:
        return store->zk.members[node].pid;
    default:
        return store->redis[node].pid;
    }
}

bool store_pause(struct store *store, unsigned node, bool pause)
{
    if (store->backend->kind == STORE_COMMAND)
        return store_command_pause(pause);
    if (store->backend->kind == STORE_MYSQL)
        dlt_maria_pause(&store->maria, pause);
    else if (store->backend->kind == STORE_POSTGRESQL)
        dlt_postgres_pause(&store->postgres, pause);
    else if (store->backend->kind == STORE_ETCD)
        dlt_etcd_pause(&store->etcd, node, pause);
    else if (store->backend->kind == STORE_ZOOKEEPER)
        dlt_zk_pause(&store->zk, node, pause);
    else
        dlt_redis_pause(&store->redis[node], pause);
    for (int ms = 0; ms < 1000; ms++) {
        if ((process_state(server_pid(store, node)) == 'T') == pause)
            return true;
        (void)poll(NULL, 0, 1);
    }
    return false;
}

bool store_kill(struct store *store, unsigned node)
{
    pid_t pid = server_pid(store, node);

    if (store->backend->kind == STORE_COMMAND)
        return store_command_kill();
    if (store->backend->kind == STORE_MYSQL)
        dlt_maria_kill(&store->maria);
    else if (store->backend->kind == STORE_POSTGRESQL)
        dlt_postgres_kill(&store->postgres);
    else if (store->backend->kind == STORE_ETCD)
        dlt_etcd_kill(&store->etcd, node);
    else if (store->backend->kind == STORE_ZOOKEEPER)
        dlt_zk_kill(&store->zk, node);
    else
        dlt_redis_kill(&store->redis[node]);
    return pid > 0 && process_state(pid) == 0;
}

bool store_again(struct store *store, unsigned node)
{
    if (store->backend->kind == STORE_COMMAND)
        return store_command_again();
    if (store->backend->kind == STORE_MYSQL)
        return dlt_maria_again(&store->maria);
    if (store->backend->kind == STORE_POSTGRESQL)
        return dlt_postgres_again(&store->postgres);
    if (store->backend->kind == STORE_ETCD)
        return dlt_etcd_again(&store->etcd, node);
    if (store->backend->kind == STORE_ZOOKEEPER)
        return dlt_zk_again(&store->zk, node);
    return dlt_redis_again(&store->redis[node]);
}

bool store_part(struct store *store, unsigned node, bool part)
{
    if (part)
        store->swallowed = -dlt_zk_swallowed(&store->zk);
    else
        store->swallowed += dlt_zk_swallowed(&store->zk);
    return dlt_zk_cut(&store->zk, node, part) && (part || store->swallowed > 0);
}

static unsigned number_of(const char *answer)
{
    return (unsigned)strtoul(answer, NULL, 10);
}

/* A member has no word for it: what lies between ends them. */
static unsigned ways_end(struct store *store, unsigned node)
{
    int64_t ended = 0;

    for (unsigned client = 0; client < store->clients; client++) {
        struct dlt_proxy *way = &store->ways[client][node];

        ended -= dlt_proxy_count(way, 0, "killed");
        (void)dlt_proxy_tell(way, "kill rst");
        ended += dlt_proxy_count(way, 0, "killed");
    }
    return (unsigned)ended;
}

unsigned store_kick(struct store *store, unsigned node)
{
    char ids[1024], *rest = ids;
    unsigned count = 0;

    if (store->backend->kind == STORE_REDIS)
        return number_of(dlt_redis_ask(&store->redis[node], "CLIENT KILL TYPE %s", "normal")) +
               number_of(dlt_redis_ask(&store->redis[node], "CLIENT KILL TYPE %s", "pubsub"));
    if (store->backend->kind == STORE_POSTGRESQL)
        return number_of(dlt_postgres_ask(&store->postgres,
                                          "SELECT count(pg_terminate_backend(pid)) FROM "
                                          "pg_stat_activity WHERE usename = 'u'"));
    if (store->backend->kind == STORE_ETCD || store->backend->kind == STORE_ZOOKEEPER)
        return ways_end(store, node);
    (void)snprintf(ids, sizeof ids, "%s",
                   dlt_maria_ask(&store->maria, "SELECT GROUP_CONCAT(id SEPARATOR ' ') FROM "
                                                "information_schema.processlist WHERE user = 'u'"));
    for (char *id = strsep(&rest, " "); id != NULL; id = strsep(&rest, " "))
        if (number_of(id) > 0 && *dlt_maria_ask(&store->maria, "KILL CONNECTION %s", id) == '\0')
            count++;
    return count;
}

unsigned store_flush(struct store *store, unsigned node)
{
    const char *info = dlt_redis_ask(&store->redis[node], "INFO %s", "memory");
    const char *at = strstr(info, "number_of_cached_scripts:");
    unsigned scripts = at != NULL ? number_of(at + strlen("number_of_cached_scripts:")) : 0;

    (void)dlt_redis_ask(&store->redis[node], "SCRIPT FLUSH");
    return scripts;
}

static unsigned postgres_forget(const struct store *store)
{
    return number_of(dlt_postgres_ask(
        &store->postgres,
        "WITH held AS (DELETE FROM dlock_lease RETURNING 1), read AS (DELETE FROM dlock_reader "
        "RETURNING 1) SELECT (SELECT count(*) FROM held) + (SELECT count(*) FROM read)"));
}

unsigned store_forget(struct store *store)
{
    unsigned keys = 0;

    for (unsigned node = 0; store->backend->kind == STORE_REDIS && node < store->backend->nodes;
         node++) {
        keys += number_of(dlt_redis_ask(&store->redis[node], "DBSIZE"));
        (void)dlt_redis_ask(&store->redis[node], "FLUSHALL");
    }
    if (store->backend->kind == STORE_REDIS)
        return keys;
    if (store->backend->kind == STORE_POSTGRESQL)
        return postgres_forget(store);
    if (store->backend->kind == STORE_ETCD) /* it says how many */
        return number_of(dlt_etcd_ask(&store->etcd, "del --from-key ''"));
    if (store->backend->kind == STORE_ZOOKEEPER)
        return number_of(dlt_zk_ask(&store->zk, "deleteall /torture"));
    keys = number_of(dlt_maria_ask(&store->maria, "SELECT COUNT(*) FROM dlock_names"));
    return *dlt_maria_ask(&store->maria, "UPDATE dlock_names SET until_us = 1, readers_us = 1") ==
                   '\0'
               ? keys
               : 0;
}
