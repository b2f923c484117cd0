/* SPDX-License-Identifier: MIT */
/* kinds.h - the kinds of servers that with_server knows, by name. */
#ifndef DLT_KINDS_H
#define DLT_KINDS_H

#include "cluster_server.h"
#include "etcd_server.h"
#include "maria_server.h"
#include "pgbouncer_server.h"
#include "postgres_server.h"
#include "redis_server.h"
#include "sentinel_server.h"
#include "zk_server.h"

struct dlt_server {
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

struct dlt_kind {
    const char *name;
    bool (*start)(struct dlt_server *server, bool tls, const char *const *args);
    void (*stop)(struct dlt_server *server);
    /* Not NULL: tests may share one (run_server.h), each with this database, prefix or root of its
     * own, of this name. False: it has said why. */
    bool (*name_make)(const char *name);
};

/* NULL: there is none of this name. */
const struct dlt_kind *dlt_kind_find(const char *name);

#endif
