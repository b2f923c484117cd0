/* SPDX-License-Identifier: MIT */
#include "kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool redis_start(struct dlt_server *server, bool tls, const char *const *args)
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

static void redis_stop(struct dlt_server *server)
{
    dlt_redis_stop(&server->redis);
}

static bool maria_start(struct dlt_server *server, bool tls, const char *const *args)
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

static bool mysql_start(struct dlt_server *server, bool tls, const char *const *args)
{
    return setenv("DLT_REAL_MYSQL", "1", 1) == 0 && maria_start(server, tls, args);
}

static void maria_stop(struct dlt_server *server)
{
    dlt_maria_stop(&server->maria);
}

static bool postgres_start(struct dlt_server *server, bool tls, const char *const *args)
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

static void postgres_stop(struct dlt_server *server)
{
    dlt_postgres_stop(&server->postgres);
}

static bool pgbouncer_start(struct dlt_server *server, bool tls, const char *const *args)
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

static void pgbouncer_stop(struct dlt_server *server)
{
    dlt_pgbouncer_stop(&server->pgbouncer);
    postgres_stop(server);
}

static void etcd_tell(struct dlt_server *server)
{
    const struct dlt_etcd *etcd = &server->etcd;

    server->port = etcd->members[0].port;
    server->tls_port = etcd->certificate != NULL ? server->port : 0;
    server->socket = "";
    server->directory = etcd->directory;
    server->why = etcd->why;
}

static void etcd_stop(struct dlt_server *server)
{
    dlt_etcd_stop(&server->etcd);
}

static bool etcd_start(struct dlt_server *server, bool tls, const char *const *args)
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

static bool etcd_cluster_start(struct dlt_server *server, bool tls, const char *const *args)
{
    bool good = !tls && dlt_etcd_start_cluster(&server->etcd, 3, args);

    etcd_tell(server);
    return good;
}

static bool etcd_auth_start(struct dlt_server *server, bool tls, const char *const *args)
{
    struct dlt_etcd *etcd = &server->etcd;
    bool good = tls ? dlt_etcd_start_tls(etcd, "server", false, args) : dlt_etcd_start(etcd, args);

    good = good && dlt_etcd_auth(etcd, "locks/");
    etcd_tell(server);
    return good;
}

static bool zk_start_some(struct dlt_server *server, unsigned count, bool tls,
                          const char *const *args)
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

static bool zk_start(struct dlt_server *server, bool tls, const char *const *args)
{
    return zk_start_some(server, 1, tls, args);
}

static bool zk_cluster_start(struct dlt_server *server, bool tls, const char *const *args)
{
    return zk_start_some(server, 3, tls, args);
}

static void zk_stop(struct dlt_server *server)
{
    dlt_zk_stop(&server->zk);
}

static bool sentinels_start(struct dlt_server *server, bool tls, const char *const *args)
{
    struct dlt_sentinels *sentinels = &server->sentinels;
    bool good = !tls && dlt_sentinels_start(sentinels, args);

    server->port = sentinels->sentinels[0].port;
    server->socket = sentinels->redis[0].socket;
    server->directory = sentinels->redis[0].directory;
    server->why = tls ? "redis-sentinel: no --tls" : sentinels->why;
    return good;
}

static void sentinels_stop(struct dlt_server *server)
{
    dlt_sentinels_stop(&server->sentinels);
}

static bool cluster_start(struct dlt_server *server, bool tls, const char *const *args)
{
    struct dlt_cluster *cluster = &server->cluster;
    bool good = !tls && dlt_cluster_start(cluster, args);

    server->port = cluster->redis[0].port;
    server->socket = cluster->redis[0].socket;
    server->directory = cluster->redis[0].directory;
    server->why = tls ? "redis-cluster: no --tls" : cluster->why;
    return good;
}

static void cluster_stop(struct dlt_server *server)
{
    dlt_cluster_stop(&server->cluster);
}

/* A first key, or node, makes a prefix or a root. */
static bool name_needs_nothing(const char *name)
{
    (void)name;
    return true;
}

static bool answered(const char *answer)
{
    if (answer[0] != '\0')
        (void)fprintf(stderr, "with_server: %s\n", answer);
    return answer[0] == '\0';
}

static bool maria_name_make(const char *name)
{
    struct dlt_maria maria;

    return dlt_maria_borrow(&maria) &&
           answered(
               dlt_maria_ask(&maria, "CREATE DATABASE %s; GRANT ALL ON %s.* TO u", name, name));
}

static bool postgres_name_make(const char *name)
{
    struct dlt_postgres postgres;

    return dlt_postgres_borrow(&postgres) &&
           answered(dlt_postgres_ask(&postgres, "CREATE DATABASE %s OWNER u", name));
}

static const struct dlt_kind kinds[] = {
    {"redis", redis_start, redis_stop, NULL},
    {"redis-sentinel", sentinels_start, sentinels_stop, NULL},
    {"redis-cluster", cluster_start, cluster_stop, NULL},
    {"mariadb", maria_start, maria_stop, maria_name_make},
    {"mysql", mysql_start, maria_stop, NULL},
    {"postgres", postgres_start, postgres_stop, postgres_name_make},
    {"pgbouncer", pgbouncer_start, pgbouncer_stop, NULL},
    {"etcd", etcd_start, etcd_stop, name_needs_nothing},
    {"etcd-cluster", etcd_cluster_start, etcd_stop, NULL},
    {"etcd-auth", etcd_auth_start, etcd_stop, NULL},
    {"zookeeper", zk_start, zk_stop, name_needs_nothing},
    {"zookeeper-cluster", zk_cluster_start, zk_stop, NULL},
};

const struct dlt_kind *dlt_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return &kinds[i];
    return NULL;
}
