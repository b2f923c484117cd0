/* SPDX-License-Identifier: MIT */
/*
 * with_server redis|redis-sentinel|redis-cluster|mariadb|mysql|postgres|pgbouncer|etcd|
 *     etcd-cluster|etcd-auth|zookeeper|zookeeper-cluster [--count N] [--tls] [SERVER-ARGUMENT...]
 * -- COMMAND [ARGUMENT...]
 *
 * Runs COMMAND beside servers of its own and ends with its status. {port}, {tls} (the port with
 * TLS), {socket}, {dir} and {pid} (of redis, mariadb and postgres) in the arguments stand for what
 * the first server got, {port2} and so on for the others. redis-sentinel: {port}, {port2}, {port3}
 * are those of the sentinels of the service "locks"; redis-cluster: six servers, the first three
 * are masters. mysql: the real one, of Debian sid (scripts/root). --tls: with certificates in
 * {dir}, and the one named "server". pgbouncer: in front of a PostgreSQL server; its first
 * SERVER-ARGUMENT is the mode, and {direct} the server's own port. etcd-cluster: one cluster of
 * three members; {port}, {port2}, {port3} are theirs. etcd-auth: user u (password secret) may use
 * the keys that begin with "locks/", and nothing else. zookeeper-cluster: three servers with a
 * leader; {port}, {port2}, {port3} are theirs. An argument of zookeeper is a line of its zoo.cfg.
 */
#include "cluster_server.h"
#include "etcd_server.h"
#include "maria_server.h"
#include "pgbouncer_server.h"
#include "postgres_server.h"
#include "redis_server.h"
#include "sentinel_server.h"
#include "zk_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVERS_MAX 9
#define WORDS_MAX   ((2 * 6 + DLT_CLUSTER_COUNT) * SERVERS_MAX + 1)

struct server {
    struct dlt_redis redis;
    struct dlt_maria maria;
    struct dlt_postgres postgres;
    struct dlt_pgbouncer pgbouncer;
    struct dlt_etcd etcd;
    struct dlt_zk zk;
    struct dlt_sentinels sentinels;
    struct dlt_cluster cluster;
    unsigned port, tls_port, direct_port;
    pid_t pid; /* of a server that is one process, or one with children */
    const char *socket, *directory, *why;
};

struct kind {
    const char *name;
    bool (*start)(struct server *server, bool tls, const char *const *args);
    void (*stop)(struct server *server);
};

static bool redis_start(struct server *server, bool tls, const char *const *args)
{
    struct dlt_redis *redis = &server->redis;
    bool good =
        tls ? dlt_redis_start_tls(redis, "server", "optional") : dlt_redis_start(redis, args);

    server->port = redis->port;
    server->tls_port = redis->tls_port;
    server->pid = redis->pid;
    server->socket = redis->socket;
    server->directory = redis->directory;
    server->why = redis->why;
    return good;
}

static void redis_stop(struct server *server)
{
    dlt_redis_stop(&server->redis);
}

static bool maria_start(struct server *server, bool tls, const char *const *args)
{
    struct dlt_maria *maria = &server->maria;
    bool good = tls ? dlt_maria_start_tls(maria, "server", args) : dlt_maria_start(maria, args);
    char port[16];

    server->port = maria->port;
    server->tls_port = tls ? maria->port : 0;
    server->pid = maria->pid;
    server->socket = maria->socket;
    server->directory = maria->directory;
    server->why = maria->why;
    (void)snprintf(port, sizeof port, "%u", maria->port);
    (void)setenv("DLT_MARIA_PORT", port, 1);
    (void)setenv("DLT_MARIA_DIRECTORY", maria->directory, 1);
    return good;
}

static bool mysql_start(struct server *server, bool tls, const char *const *args)
{
    return setenv("DLT_REAL_MYSQL", "1", 1) == 0 && maria_start(server, tls, args);
}

static void maria_stop(struct server *server)
{
    dlt_maria_stop(&server->maria);
}

static bool postgres_start(struct server *server, bool tls, const char *const *args)
{
    struct dlt_postgres *postgres = &server->postgres;
    bool good =
        tls ? dlt_postgres_start_tls(postgres, "server", args) : dlt_postgres_start(postgres, args);
    char port[16];

    server->port = postgres->port;
    server->tls_port = tls ? postgres->port : 0;
    server->direct_port = postgres->port;
    server->pid = postgres->pid;
    server->socket = postgres->socket;
    server->directory = postgres->directory;
    server->why = postgres->why;
    (void)snprintf(port, sizeof port, "%u", postgres->port);
    (void)setenv("DLT_POSTGRES_PORT", port, 1);
    (void)setenv("DLT_POSTGRES_DIRECTORY", postgres->directory, 1);
    return good;
}

static void postgres_stop(struct server *server)
{
    dlt_postgres_stop(&server->postgres);
}

static bool pgbouncer_start(struct server *server, bool tls, const char *const *args)
{
    struct dlt_pgbouncer *pgbouncer = &server->pgbouncer;

    server->why = "pgbouncer: want a mode, and no --tls";
    if (tls || args[0] == NULL || !postgres_start(server, false, args + 1))
        return false;
    server->why = pgbouncer->why;
    if (!dlt_pgbouncer_start(pgbouncer, &server->postgres, args[0], NULL))
        return false;
    server->port = pgbouncer->port;
    return true;
}

static void pgbouncer_stop(struct server *server)
{
    dlt_pgbouncer_stop(&server->pgbouncer);
    postgres_stop(server);
}

static void etcd_tell(struct server *server)
{
    const struct dlt_etcd *etcd = &server->etcd;

    server->port = etcd->members[0].port;
    server->tls_port = etcd->certificate != NULL ? server->port : 0;
    server->socket = "";
    server->directory = etcd->directory;
    server->why = etcd->why;
}

static void etcd_stop(struct server *server)
{
    dlt_etcd_stop(&server->etcd);
}

static bool etcd_start(struct server *server, bool tls, const char *const *args)
{
    struct dlt_etcd *etcd = &server->etcd;
    bool good = tls ? dlt_etcd_start_tls(etcd, "server", false, args) : dlt_etcd_start(etcd, args);
    char number[16];

    etcd_tell(server);
    (void)snprintf(number, sizeof number, "%u", etcd->members[0].port);
    (void)setenv("DLT_ETCD_PORT", number, 1);
    (void)snprintf(number, sizeof number, "%u", etcd->members[0].metrics_port);
    (void)setenv("DLT_ETCD_METRICS", number, 1);
    return good;
}

static bool etcd_cluster_start(struct server *server, bool tls, const char *const *args)
{
    bool good = !tls && dlt_etcd_start_cluster(&server->etcd, 3, args);

    etcd_tell(server);
    return good;
}

static bool etcd_auth_start(struct server *server, bool tls, const char *const *args)
{
    struct dlt_etcd *etcd = &server->etcd;
    bool good = tls ? dlt_etcd_start_tls(etcd, "server", false, args) : dlt_etcd_start(etcd, args);

    good = good && dlt_etcd_auth(etcd, "locks/");
    etcd_tell(server);
    return good;
}

static bool zk_start_some(struct server *server, unsigned count, bool tls, const char *const *args)
{
    struct dlt_zk *zk = &server->zk;
    bool good = false;
    char ports[64] = "";

    server->why = "zookeeper: no --tls";
    if (tls)
        return false;
    good = dlt_zk_start_cluster(zk, count, args);
    server->port = zk->members[0].port;
    server->socket = "";
    server->directory = zk->directory;
    server->why = zk->why;
    for (unsigned i = 0; i < zk->count; i++)
        (void)snprintf(ports + strlen(ports), sizeof ports - strlen(ports), "%s%u",
                       i > 0 ? "," : "", zk->members[i].port);
    (void)setenv("DLT_ZK_PORTS", ports, 1);
    return good;
}

static bool zk_start(struct server *server, bool tls, const char *const *args)
{
    return zk_start_some(server, 1, tls, args);
}

static bool zk_cluster_start(struct server *server, bool tls, const char *const *args)
{
    return zk_start_some(server, 3, tls, args);
}

static void zk_stop(struct server *server)
{
    dlt_zk_stop(&server->zk);
}

static bool sentinels_start(struct server *server, bool tls, const char *const *args)
{
    struct dlt_sentinels *sentinels = &server->sentinels;
    bool good = !tls && dlt_sentinels_start(sentinels, args);

    server->port = sentinels->sentinels[0].port;
    server->socket = sentinels->redis[0].socket;
    server->directory = sentinels->redis[0].directory;
    server->why = tls ? "redis-sentinel: no --tls" : sentinels->why;
    return good;
}

static void sentinels_stop(struct server *server)
{
    dlt_sentinels_stop(&server->sentinels);
}

static bool cluster_start(struct server *server, bool tls, const char *const *args)
{
    struct dlt_cluster *cluster = &server->cluster;
    bool good = !tls && dlt_cluster_start(cluster, args);

    server->port = cluster->redis[0].port;
    server->socket = cluster->redis[0].socket;
    server->directory = cluster->redis[0].directory;
    server->why = tls ? "redis-cluster: no --tls" : cluster->why;
    return good;
}

static void cluster_stop(struct server *server)
{
    dlt_cluster_stop(&server->cluster);
}

static const struct kind kinds[] = {
    {"redis", redis_start, redis_stop},
    {"redis-sentinel", sentinels_start, sentinels_stop},
    {"redis-cluster", cluster_start, cluster_stop},
    {"mariadb", maria_start, maria_stop},
    {"mysql", mysql_start, maria_stop},
    {"postgres", postgres_start, postgres_stop},
    {"pgbouncer", pgbouncer_start, pgbouncer_stop},
    {"etcd", etcd_start, etcd_stop},
    {"etcd-cluster", etcd_cluster_start, etcd_stop},
    {"etcd-auth", etcd_auth_start, etcd_stop},
    {"zookeeper", zk_start, zk_stop},
    {"zookeeper-cluster", zk_cluster_start, zk_stop},
};

struct word {
    char name[24], value[96];
};

/* The text with each of the words in it replaced; not freed, the command begins soon. */
static char *expand(char *text, const struct word *words)
{
    for (; words->name[0] != '\0'; words++) {
        for (const char *at = strstr(text, words->name); at != NULL;
             at = strstr(text, words->name)) {
            char *longer = NULL;

            if (asprintf(&longer, "%.*s%s%s", (int)(at - text), text, words->value,
                         at + strlen(words->name)) < 0 ||
                longer == NULL)
                _exit(71);
            text = longer;
        }
    }
    return text;
}

static int run(char **argv, const struct word *words)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        for (size_t i = 0; argv[i] != NULL; i++)
            argv[i] = expand(argv[i], words);
        (void)execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* "{port}" or, with a number, "{port2}". */
static struct word *name_set(struct word *word, const char *name, int number)
{
    if (number > 0)
        (void)snprintf(word->name, sizeof word->name, "{%s%d}", name, number);
    else
        (void)snprintf(word->name, sizeof word->name, "{%s}", name);
    return word;
}

static struct word *words_add(struct word *words, const struct server *server, int number)
{
    struct word *word = name_set(words++, "port", number);

    (void)snprintf(word->value, sizeof word->value, "%u", server->port);
    word = name_set(words++, "tls", number);
    (void)snprintf(word->value, sizeof word->value, "%u", server->tls_port);
    word = name_set(words++, "direct", number);
    (void)snprintf(word->value, sizeof word->value, "%u", server->direct_port);
    word = name_set(words++, "socket", number);
    (void)snprintf(word->value, sizeof word->value, "%s", server->socket);
    word = name_set(words++, "dir", number);
    (void)snprintf(word->value, sizeof word->value, "%s", server->directory);
    word = name_set(words++, "pid", number);
    (void)snprintf(word->value, sizeof word->value, "%d", (int)server->pid);
    return words;
}

static struct word *port_add(struct word *words, unsigned i, unsigned port)
{
    (void)snprintf(name_set(words, "port", (int)i + 1)->value, sizeof words->value, "%u", port);
    return words + 1;
}

/* The members of a cluster after the first one. */
static struct word *members_add(struct word *words, const struct server *server)
{
    for (unsigned i = 1; i < server->etcd.count; i++)
        words = port_add(words, i, server->etcd.members[i].port);
    for (unsigned i = 1; i < server->zk.count; i++)
        words = port_add(words, i, server->zk.members[i].port);
    for (unsigned i = 1; i < DLT_SENTINELS_COUNT && server->sentinels.hosts[0] != '\0'; i++)
        words = port_add(words, i, server->sentinels.sentinels[i].port);
    for (unsigned i = 1; i < DLT_CLUSTER_COUNT && server->cluster.hosts[0] != '\0'; i++)
        words = port_add(words, i, server->cluster.redis[i].port);
    return words;
}

struct order {
    const struct kind *kind;
    int count;
    bool tls;
    const char *args[DLT_REDIS_ARGS_MAX];
    char **command;
};

static bool order_read(struct order *order, char **argv)
{
    int args = 0;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (argv[1] != NULL && strcmp(argv[1], kinds[i].name) == 0)
            order->kind = &kinds[i];
    if (order->kind == NULL)
        return false;
    for (argv += 2; *argv != NULL && strcmp(*argv, "--") != 0; argv++) {
        if (strcmp(*argv, "--count") == 0 && argv[1] != NULL)
            order->count = (int)strtol(*++argv, NULL, 10);
        else if (strcmp(*argv, "--tls") == 0)
            order->tls = true;
        else if (args + 1 < DLT_REDIS_ARGS_MAX)
            order->args[args++] = *argv;
        else
            return false;
    }
    order->command = *argv != NULL ? argv + 1 : argv;
    return *order->command != NULL && order->count >= 1 && order->count <= SERVERS_MAX;
}

int main(int argc, char **argv)
{
    static struct server servers[SERVERS_MAX];
    static struct word words[WORDS_MAX];
    struct order order = {.count = 1};
    struct word *end = words;
    int started = 0, status = 69;

    if (argc < 2 || !order_read(&order, argv)) {
        (void)fputs(
            "usage: with_server "
            "redis|redis-sentinel|redis-cluster|mariadb|mysql|postgres|pgbouncer|etcd|"
            "etcd-cluster|etcd-auth|zookeeper|zookeeper-cluster [--count N] [--tls] [ARGUMENT...] "
            "-- COMMAND...\n",
            stderr);
        return 64;
    }
    while (started < order.count && order.kind->start(&servers[started], order.tls, order.args)) {
        if (started == 0)
            end = words_add(end, &servers[0], 0);
        end = words_add(end, &servers[started], started + 1);
        end = members_add(end, &servers[started]);
        started++;
    }
    if (started == order.count)
        status = run(order.command, words);
    else
        (void)fprintf(stderr, "with_server: %s\n", servers[started].why);
    for (int i = 0; i < order.count && i <= started; i++)
        order.kind->stop(&servers[i]);
    return status;
}
