/* SPDX-License-Identifier: MIT */
/* config.h - what a URI says. */
#ifndef ZK_CONFIG_H
#define ZK_CONFIG_H

#include "net/address.h"

#include <dlock/plugin.h>
#include <stdbool.h>

#define ZK_ORIGIN      "zookeeper"
#define ZK_PORT        2181
#define ZK_SERVERS_MAX 9
#define ZK_BASE_MAX    256
#define ZK_BASE        "/dlock" /* of a URI without a path */

#define ZK_CAPS                                                                            \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | DLOCK_CAP_CRASH_SAFE | \
     DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_CONCURRENT | DLOCK_CAP_TETHERED |       \
     DLOCK_CAP_LIMIT | DLOCK_CAP_DATA)

/* The names that dlock gives to the nodes of holders and waiters. */
enum zk_recipe {
    ZK_CURATOR_RW, /* "_c_<token>-__READ__", "_c_<token>-__WRIT__": Curator's read-write lock */
    ZK_CURATOR,    /* "_c_<token>-lock-": Curator's mutex; no readers */
    ZK_KAZOO       /* "<token>__lock__", "<token>__rlock__" */
};

struct zk_config {
    const struct dlock_target *target;
    struct address servers[ZK_SERVERS_MAX];
    size_t count;
    /* The node that the names are below: "/dlock", never "/" at the end; "" is the root. */
    char base[ZK_BASE_MAX + 1];
    size_t base_len;
    enum zk_recipe recipe;
    bool raw;         /* key=raw: a name is a path below the base */
    const char *user; /* for digest; NULL: none */
    bool creator_acl; /* nodes are for their creators alone; otherwise for everybody */
    int64_t ttl_ms;   /* that the session is made for */
    int64_t tick_ms;  /* tick= of the URI; 0: found by zk_servers_ask */
};

/* INVALID: says what is wrong. */
enum dlock_status zk_config_init(struct zk_config *config, const struct dlock_target *target,
                                 struct dlock_error *err);

#endif
