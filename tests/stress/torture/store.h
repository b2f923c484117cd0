/* SPDX-License-Identifier: MIT */
/*
 * store.h - where the locks of a run are: servers of its own, each client with a way of its own to
 * each of them that can be made bad, or a file.
 */
#ifndef TORTURE_STORE_H
#define TORTURE_STORE_H

#include <cluster_server.h>
#include <etcd_server.h>
#include <maria_server.h>
#include <postgres_server.h>
#include <proxy_client.h>
#include <redis_server.h>
#include <sentinel_server.h>
#include <stdint.h>
#include <zk_client.h>

#define NODES_MOST   6
#define CLIENTS_MOST 32

enum store_kind {
    STORE_MEMORY,
    STORE_SQLITE,
    STORE_REDIS,
    STORE_SENTINEL,
    STORE_CLUSTER,
    STORE_MYSQL,
    STORE_POSTGRESQL,
    STORE_ETCD,
    STORE_ZOOKEEPER,
    STORE_COMMAND /* a URI of the command line: store_command.h */
};

/* A backend as --backend names it. */
struct backend {
    const char *name;
    enum store_kind kind;
    const char *strategy; /* mysql, postgresql */
    unsigned nodes;       /* servers */
    bool majority;        /* of them counts: redlock */
    bool session;
    bool forgets;     /* a server that is killed loses its locks, whatever the options are */
    bool fences;      /* every exclusive acquisition has a token */
    int64_t lease_ms; /* after so long the server ends what a silent holder has; 0: the ttl */
    int64_t place_ms; /* what a dead waiter costs the others */
};

const struct backend *backend_find(const char *name); /* NULL: unknown */
const char *backend_names(void);                      /* "memory, sqlite, ..." */

/* How often a master was to be replaced in one way, and was. */
struct failovers {
    unsigned tried, effective;
};

#define SESSION_GRACE_MS 2000 /* of stores whose leases live in sessions */
#define FAIL_WAYS_MOST   8

struct store {
    const struct backend *backend;
    unsigned clients;
    bool forgets, guarded, lone_guard;
    int64_t longest_ms; /* restart_guard: T of the failover guard */
    char directory[128];
    struct dlt_redis redis[NODES_MOST];
    struct dlt_maria maria;
    struct dlt_postgres postgres;
    struct dlt_etcd etcd;
    struct dlt_zk zk;
    struct dlt_sentinels sentinels;
    struct dlt_cluster cluster;
    bool fails;                       /* store_fail did what it was to do */
    int failed_node;                  /* the master that store_fail hit; -1: none */
    int lagging_node;                 /* whose replicas store_fail may have cut off */
    unsigned failed_way, failed_slot; /* the slot: of a cluster */
    int failed_to;                    /* where the slot moves; -1: nowhere */
    struct failovers failovers[FAIL_WAYS_MOST];
    int64_t swallowed; /* since store_part between servers, or since store_divide */
    bool routed;       /* clients go their own ways where servers tell them to go */
    struct dlt_proxy ways[CLIENTS_MOST][NODES_MOST];
    char why[768]; /* after a false */
};

struct store_options {
    const struct backend *backend;
    const char *directory; /* there is one */
    unsigned clients;
    bool guarded;       /* clients have a guard against failovers */
    bool routed;        /* clients can be led: they are no rivals */
    bool lone_guard;    /* nothing else ends an old master; of a service with sentinels */
    int64_t longest_ms; /* ... which allows for leases of that length */
    bool forgets;       /* a server that is killed loses its locks, and nothing makes up for it */
    const char *clocks; /* a file of skew.h for the servers' clocks; NULL: the true ones */
};

/* False: why. End it with store_stop in either case. */
bool store_start(struct store *store, const struct store_options *options);
void store_stop(struct store *store);

/* The URI for this client. */
void store_uri(const struct store *store, unsigned client, char *uri, size_t size);

/* Whom a fault hits that chance has given a node: the leader of a cluster, every second time. */
unsigned store_choose(const struct store *store, unsigned node, uint32_t variant);
/* Where clients are connected to one server of several, a fault of ways hits one in use: of this
 * client (node == nodes: all its ways), or of any. */
unsigned store_choose_way(struct store *store, unsigned client, unsigned node);
unsigned store_choose_used(struct store *store, unsigned node);
/* The same for a server that is to stand still. A leader of etcd that stood still and goes on may
 * end leases that are kept alive (guarantees.md): another member is hit. */
unsigned store_choose_still(const struct store *store, unsigned node, uint32_t variant);
/* A server stands still, or is gone, or is there again. True: that is so now. */
bool store_pause(struct store *store, unsigned node, bool pause);
bool store_kill(struct store *store, unsigned node);
bool store_again(struct store *store, unsigned node);
/* False: several servers that choose a leader have none at present, or too few that follow it, and
 * serve nobody. */
bool store_serves(const struct store *store);
/* Servers cannot reach one of them any more, nor it them; clients can. True: that is so now, and,
 * at the end, something had been lost. */
bool store_part(struct store *store, unsigned node, bool part);

/* Stores whose masters are replaced when they fail. Servers tell their clients where to go: each
 * has ways of its own all the same, if it can be led there. */
bool store_fails_over(const struct backend *backend);
bool store_failover_start(struct store *store);
void store_failover_stop(struct store *store);
void store_failover_uri(const struct store *store, char *uri, size_t size);
/* What leads this client (route.h); "": nothing does. */
void store_routes(const struct store *store, unsigned client, char *text, size_t size);
/* The master that store_fail would hit has a replica that could replace it. */
bool store_ready(struct store *store, uint32_t variant);
/* The master dies, stands still, is cut off from the others, or is replaced by hand. True: so it
 * is. */
bool store_fail(struct store *store, uint32_t variant);
/* True: another one is the master now, or the fault is not about that. */
bool store_replaced(struct store *store);
/* It comes back. True: another one was the master by then. */
bool store_failed(struct store *store);
/* Which ways there are, and what came of them. NULL: no more. */
const char *store_failovers(const struct store *store, unsigned way, struct failovers *count);

/* What they did: 0, nothing. */
unsigned store_kick(struct store *store, unsigned node);  /* connections ended */
unsigned store_flush(struct store *store, unsigned node); /* scripts forgotten */
unsigned store_forget(struct store *store);               /* locks deleted */

#endif
