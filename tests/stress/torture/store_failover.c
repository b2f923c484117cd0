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
#define TWICE_MS      3000 /* for the first of two failovers */
#define POLL_MS       20

enum {
    BY_DEATH,
    BY_STANDSTILL,
    BY_PARTITION,
    BY_HAND,
    BY_DIVISION,
    BY_HASTE,
    BY_TWO,
    WAYS_TO_FAIL
};

static const char *const texts[] = {
    [BY_DEATH] = "killed",
    [BY_STANDSTILL] = "stopped",
    [BY_PARTITION] = "cut off from the others",
    [BY_HAND] = "by hand",
    [BY_DIVISION] = "cut off with some of the clients",
    [BY_HASTE] = "by hand, unheard by the master and some of the clients",
    [BY_TWO] = "by hand twice, one right after the other",
    [WAYS_TO_FAIL] = NULL,
};

/* Where the old master goes on until its guard ends it. */
static const unsigned lone_ways[] = {BY_HASTE,    BY_HASTE,     BY_HASTE, BY_DIVISION,
                                     BY_DIVISION, BY_PARTITION, BY_TWO,   BY_DEATH};

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
    bool right = store->lone_guard
                     ? dlt_sentinels_start_alone(&store->sentinels)
                     : dlt_sentinels_start(&store->sentinels, store->guarded ? NULL : alone);

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

static bool divides(const struct store *store)
{
    return store->routed && (store->failed_way == BY_DIVISION || store->failed_way == BY_HASTE);
}

static bool is_by_hand(const struct store *store)
{
    return store->failed_way == BY_HAND || store->failed_way == BY_HASTE ||
           store->failed_way == BY_TWO;
}

/* Replaces the next master as soon as there is one: what it knows of the guard of the first
 * failover, the one after it has to keep. */
static void sentinels_fail_twice(struct store *store)
{
    int first = store->failed_node, next = first;

    (void)dlt_sentinels_failover(&store->sentinels);
    for (int ms = 0; ms < TWICE_MS && (next < 0 || next == first); ms += POLL_MS) {
        (void)poll(NULL, 0, POLL_MS);
        next = dlt_sentinels_master(&store->sentinels);
    }
    if (next < 0 || next == first)
        return;
    store->failed_node = next;
    (void)dlt_sentinels_failover(&store->sentinels); /* again, if refused: sentinels_replaced */
}

static void sentinels_attack(struct store *store, unsigned master)
{
    struct dlt_sentinels *sentinels = &store->sentinels;

    switch (store->failed_way) {
    case BY_DEATH:
        dlt_redis_kill(&sentinels->redis[master]);
        return;
    case BY_STANDSTILL:
        dlt_redis_pause(&sentinels->redis[master], true);
        return;
    case BY_PARTITION:
    case BY_DIVISION:
        dlt_sentinels_part(sentinels, master, true);
        return;
    case BY_HASTE:
        dlt_sentinels_blind(sentinels, master, true);
        (void)dlt_sentinels_failover(sentinels);
        return;
    case BY_TWO:
        sentinels_fail_twice(store);
        return;
    default:
        (void)dlt_sentinels_failover(sentinels);
    }
}

static bool sentinels_fail(struct store *store, uint32_t variant)
{
    int master = dlt_sentinels_master(&store->sentinels);
    bool right = true;

    store->failed_node = store->lagging_node = master;
    store->failed_way = (variant >> 8) % WAYS_TO_FAIL;
    if (store->lone_guard)
        store->failed_way = lone_ways[(variant >> 8) % (sizeof lone_ways / sizeof lone_ways[0])];
    if (master < 0)
        return false;
    if ((variant >> 21 & 1) != 0)
        replicas_cut(store, master, variant);
    if (divides(store))
        right = store_divide(store, (unsigned)master, variant);
    sentinels_attack(store, (unsigned)master);
    return right;
}

static bool sentinels_replaced(struct store *store)
{
    int master = dlt_sentinels_master(&store->sentinels);

    if (is_by_hand(store) && master == store->failed_node)
        (void)dlt_sentinels_failover(&store->sentinels); /* it may have been refused */
    return master >= 0 && master != store->failed_node;
}

static bool sentinels_failed(struct store *store)
{
    int master = dlt_sentinels_master(&store->sentinels), before = store->failed_node;
    bool united = true;

    if (before < 0)
        return false;
    if (divides(store))
        united = store_unite(store);
    if (store->failed_way == BY_DEATH)
        (void)dlt_redis_again(&store->sentinels.redis[before]);
    else if (store->failed_way == BY_STANDSTILL)
        dlt_redis_pause(&store->sentinels.redis[before], false);
    else if (store->failed_way == BY_PARTITION || store->failed_way == BY_DIVISION)
        dlt_sentinels_part(&store->sentinels, (unsigned)before, false);
    else if (store->failed_way == BY_HASTE)
        dlt_sentinels_blind(&store->sentinels, (unsigned)before, false);
    dlt_sentinels_lag(&store->sentinels, (unsigned)store->lagging_node, false);
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
