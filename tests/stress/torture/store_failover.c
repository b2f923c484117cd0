/* SPDX-License-Identifier: MIT */
/* store_failover.c - stores whose masters are replaced: servers that sentinels watch, and a
 * cluster. */
#include "store_cluster.h"
#include "store_divide.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define OLD_MASTER_MS 2000 /* D */
#define LAG_MS        100  /* of replicas, at least; at most somewhat more than a lease */

enum { BY_DEATH, BY_STANDSTILL, BY_PARTITION, BY_HAND, BY_DIVISION, WAYS_TO_FAIL };

static const char *const texts[] = {
    [BY_DEATH] = "killed",
    [BY_STANDSTILL] = "stopped",
    [BY_PARTITION] = "cut off from the others",
    [BY_HAND] = "by hand",
    [BY_DIVISION] = "cut off with some of the clients",
    [WAYS_TO_FAIL] = NULL,
};

bool store_fails_over(const struct backend *backend)
{
    return backend->kind == STORE_SENTINEL || backend->kind == STORE_CLUSTER;
}

static bool is_cluster(const struct store *store)
{
    return store->backend->kind == STORE_CLUSTER;
}

static bool sentinels_start(struct store *store)
{
    static const char *const alone[] = {"--min-replicas-to-write", "0", NULL};
    /* Where no guard is on, nothing ends an old master. */
    bool right = dlt_sentinels_start(&store->sentinels, store->guarded ? NULL : alone);

    if (!right)
        (void)snprintf(store->why, sizeof store->why, "%s", store->sentinels.why);
    return right;
}

bool store_failover_start(struct store *store)
{
    return (is_cluster(store) ? store_cluster_start(store) : sentinels_start(store)) &&
           store_divide_start(store);
}

void store_failover_stop(struct store *store)
{
    store_divide_stop(store);
    dlt_sentinels_stop(&store->sentinels);
    dlt_cluster_stop(&store->cluster);
}

/* The guard is T + D, as short as it may be. */
void store_failover_uri(const struct store *store, char *uri, size_t size)
{
    int used = 0;

    if (is_cluster(store)) {
        store_cluster_uri(store, uri, size);
        return;
    }
    used = snprintf(uri, size, "redis+sentinel://%s/" DLT_SENTINELS_SERVICE "?waiter_lease=1s&",
                    store->sentinels.hosts);
    if (used < 0 || (size_t)used >= size)
        return;
    if (store->guarded)
        (void)snprintf(uri + used, size - (size_t)used,
                       "restart_guard=%" PRId64 "ms&failover_guard=%" PRId64 "ms",
                       store->longest_ms, store->longest_ms + OLD_MASTER_MS);
    else
        (void)snprintf(uri + used, size - (size_t)used, "failover=unsafe&restart_guard=0");
}

/* Its replicas lack what it grants from now on. */
static void replicas_cut(struct store *store, int master, uint32_t variant)
{
    dlt_sentinels_lag(&store->sentinels, (unsigned)master, true);
    (void)poll(NULL, 0, (int)(LAG_MS + (variant >> 22)));
}

static bool sentinels_fail(struct store *store, uint32_t variant)
{
    int master = dlt_sentinels_master(&store->sentinels);

    store->failed_node = master;
    store->failed_way = (variant >> 8) % WAYS_TO_FAIL;
    if (master < 0)
        return false;
    if ((variant >> 21 & 1) != 0)
        replicas_cut(store, master, variant);
    if (store->failed_way == BY_DEATH)
        dlt_redis_kill(&store->sentinels.redis[master]);
    else if (store->failed_way == BY_STANDSTILL)
        dlt_redis_pause(&store->sentinels.redis[master], true);
    else if (store->failed_way == BY_PARTITION || store->failed_way == BY_DIVISION)
        dlt_sentinels_part(&store->sentinels, (unsigned)master, true);
    else
        (void)dlt_sentinels_failover(&store->sentinels);
    return store->failed_way != BY_DIVISION || !store->routed ||
           store_divide(store, (unsigned)master, variant);
}

static bool sentinels_replaced(struct store *store)
{
    int master = dlt_sentinels_master(&store->sentinels);

    if (store->failed_way == BY_HAND && master == store->failed_node)
        (void)dlt_sentinels_failover(&store->sentinels); /* it may have been refused */
    return master >= 0 && master != store->failed_node;
}

static bool sentinels_failed(struct store *store)
{
    int master = dlt_sentinels_master(&store->sentinels), before = store->failed_node;
    bool united = true;

    if (before < 0)
        return false;
    if (store->failed_way == BY_DIVISION && store->routed)
        united = store_unite(store);
    if (store->failed_way == BY_DEATH)
        (void)dlt_redis_again(&store->sentinels.redis[before]);
    else if (store->failed_way == BY_STANDSTILL)
        dlt_redis_pause(&store->sentinels.redis[before], false);
    else if (store->failed_way == BY_PARTITION || store->failed_way == BY_DIVISION)
        dlt_sentinels_part(&store->sentinels, (unsigned)before, false);
    dlt_sentinels_lag(&store->sentinels, (unsigned)before, false);
    return united && master >= 0 && master != before;
}

bool store_ready(struct store *store, uint32_t variant)
{
    return !is_cluster(store) || store_cluster_ready(store, variant);
}

bool store_fail(struct store *store, uint32_t variant)
{
    bool failing =
        is_cluster(store) ? store_cluster_fail(store, variant) : sentinels_fail(store, variant);

    store->failovers[store->failed_way].tried++;
    store->fails = failing;
    return failing;
}

bool store_replaced(struct store *store)
{
    return is_cluster(store) ? store_cluster_replaced(store) : sentinels_replaced(store);
}

bool store_failed(struct store *store)
{
    bool replaced = is_cluster(store) ? store_cluster_failed(store) : sentinels_failed(store);

    replaced = replaced && store->fails;
    store->failovers[store->failed_way].effective += replaced;
    return replaced;
}

const char *store_failovers(const struct store *store, unsigned way, struct failovers *count)
{
    const char *name = is_cluster(store) ? store_cluster_way(way) : texts[way];

    *count = name != NULL ? store->failovers[way] : (struct failovers){0};
    return name;
}
