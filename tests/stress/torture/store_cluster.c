/* SPDX-License-Identifier: MIT */
#include "store_cluster.h"
#include "store_divide.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES       3   /* the default of --names */
#define LAG_MS      200 /* of a replica, at least; at most about two leases */
#define AGAIN_MS    200
#define PROMOTED_MS 3000
#define TRIES       20

enum {
    BY_DEATH,
    BY_STANDSTILL,
    BY_DEAFNESS,
    BY_DIVISION,
    BY_HAND,
    BY_FORCE,
    BY_SLOT,
    BY_BOTH,
    WAYS_TO_FAIL
};

static const char *const texts[] = {
    [BY_DEATH] = "killed",
    [BY_STANDSTILL] = "stopped",
    [BY_DEAFNESS] = "learns late of the next one",
    [BY_DIVISION] = "learns late of the next one, and some of the clients never",
    [BY_HAND] = "by hand",
    [BY_FORCE] = "by a replica that was cut off",
    [BY_SLOT] = "a slot moves",
    [BY_BOTH] = "by a replica that was cut off, and a slot moves",
    [WAYS_TO_FAIL] = NULL,
};

/* Those that lose most come twice. */
static const unsigned ways[] = {BY_DEATH, BY_STANDSTILL, BY_DEAFNESS, BY_DIVISION, BY_HAND,
                                BY_FORCE, BY_FORCE,      BY_SLOT,     BY_BOTH,     BY_BOTH};

bool store_cluster_start(struct store *store)
{
    const char *const args[] = {"--cluster-require-full-coverage",
                                "no",
                                "--enable-debug-command",
                                "yes",
                                "--min-replicas-to-write",
                                store->guarded ? "1" : "0",
                                NULL};
    bool right = dlt_cluster_start(&store->cluster, args);

    if (!right)
        (void)snprintf(store->why, sizeof store->why, "%s", store->cluster.why);
    return right;
}

void store_cluster_uri(const struct store *store, char *uri, size_t size)
{
    (void)snprintf(uri, size, "redis+cluster://%s?waiter_lease=1s&restart_guard=%" PRId64 "ms",
                   store->cluster.hosts, store->guarded ? store->longest_ms : 0);
}

/* The other server of the shard: see cluster_server.h. */
static unsigned partner(unsigned node)
{
    return (node + DLT_CLUSTER_MASTERS) % DLT_CLUSTER_COUNT;
}

const char *store_cluster_way(unsigned way)
{
    return texts[way];
}

/* Of those that run. */
static unsigned name_slot(struct dlt_cluster *cluster, unsigned name)
{
    for (unsigned node = 0; node < DLT_CLUSTER_COUNT; node++)
        if (cluster->redis[node].pid > 0 && !cluster->redis[node].paused)
            return (unsigned)strtoul(
                dlt_redis_ask(&cluster->redis[node], "CLUSTER KEYSLOT {torture-%u}", name), NULL,
                10);
    return 0;
}

/* The master of the shard that has this server, or of another shard; -1: none is known. */
static int shard_master(struct dlt_cluster *cluster, int node, bool same)
{
    for (unsigned slot = 0; slot < DLT_CLUSTER_SLOTS; slot += DLT_CLUSTER_SLOTS / 8) {
        int master = dlt_cluster_master(cluster, slot);

        if (master >= 0 && (master % DLT_CLUSTER_MASTERS == node % DLT_CLUSTER_MASTERS) == same)
            return master;
    }
    return -1;
}

static bool slot_move(struct store *store, int from, int to)
{
    return from >= 0 && to >= 0 &&
           dlt_cluster_slot_keys(&store->cluster, store->failed_slot, (unsigned)from,
                                 (unsigned)to) &&
           dlt_cluster_slot_give(&store->cluster, store->failed_slot, (unsigned)from, (unsigned)to);
}

static bool slot_open(struct store *store, int from, int to)
{
    return from >= 0 && to >= 0 &&
           dlt_cluster_slot_open(&store->cluster, store->failed_slot, (unsigned)from, (unsigned)to);
}

/* Its replica lacks what the master grants from now on: after more than a lease all names are free
 * there. */
static void replica_cut(struct dlt_cluster *cluster, unsigned master, uint32_t variant)
{
    (void)dlt_redis_ask(&cluster->redis[master], "ACL SETUSER default -psync -sync -replconf");
    (void)dlt_redis_ask(&cluster->redis[master], "CLIENT KILL TYPE replica");
    (void)poll(NULL, 0, (int)(LAG_MS + 2 * (variant >> 22)));
}

/* The replica takes over without asking the master. */
static bool force(struct dlt_cluster *cluster, unsigned master, uint32_t variant)
{
    replica_cut(cluster, master, variant);
    return dlt_cluster_failover(cluster, partner(master), "FORCE");
}

/* The slot leaves the new master as soon as there is one. */
static bool force_and_move(struct store *store, unsigned master, uint32_t variant)
{
    int to = shard_master(&store->cluster, (int)master, false), promoted = (int)master;
    bool good = force(&store->cluster, master, variant);

    store->failed_to = to;
    for (int ms = 0; good && promoted == (int)master && ms < PROMOTED_MS; ms += 10) {
        (void)poll(NULL, 0, 10);
        promoted = dlt_cluster_master(&store->cluster, store->failed_slot);
        promoted = promoted < 0 ? (int)master : promoted;
    }
    (void)(good && slot_open(store, promoted, to) && slot_move(store, promoted, to));
    return good; /* slot_end carries the move on */
}

/* The master misses that the replica announces itself, and hears of it by the pings of the next
 * second. Some of the clients reach the one, some the other. */
static bool deafen(struct store *store, unsigned master, uint32_t variant)
{
    struct dlt_cluster *cluster = &store->cluster;
    bool divided =
        store->failed_way != BY_DIVISION || !store->routed || store_divide(store, master, variant);

    (void)dlt_redis_ask(&cluster->redis[master], "DEBUG DROP-CLUSTER-PACKET-FILTER 1");
    return dlt_cluster_failover(cluster, partner(master), "FORCE") && divided;
}

/* Every second time the slot stays between the two for as long as the fault lasts. */
static bool slot_begin(struct store *store, uint32_t variant)
{
    int master = store->failed_node, to = shard_master(&store->cluster, master, false);

    store->failed_to = to;
    return slot_open(store, master, to) &&
           ((variant >> 20 & 1) != 0 || slot_move(store, master, to));
}

static unsigned slot_choose(struct dlt_cluster *cluster, uint32_t variant)
{
    return name_slot(cluster, (variant >> 16) % NAMES);
}

/* Its master is known, and has the replica that it had. */
bool store_cluster_ready(struct store *store, uint32_t variant)
{
    struct dlt_cluster *cluster = &store->cluster;
    int master = dlt_cluster_master(cluster, slot_choose(cluster, variant));
    const char *replica =
        master < 0 ? ""
                   : dlt_redis_ask(&cluster->redis[partner((unsigned)master)], "INFO replication");

    return strstr(replica, "role:slave") != NULL &&
           strstr(replica, "master_link_status:up") != NULL;
}

bool store_cluster_fail(struct store *store, uint32_t variant)
{
    struct dlt_cluster *cluster = &store->cluster;
    unsigned master = 0;

    store->failed_way = ways[(variant >> 8) % (sizeof ways / sizeof ways[0])];
    store->failed_slot = slot_choose(cluster, variant);
    store->failed_node = dlt_cluster_master(cluster, store->failed_slot);
    store->failed_to = -1;
    if (store->failed_node < 0)
        return false;
    master = (unsigned)store->failed_node;
    if (store->failed_way <= BY_DIVISION && (variant >> 21 & 1) != 0)
        replica_cut(cluster, master, variant);
    switch (store->failed_way) {
    case BY_DEATH:
        dlt_redis_kill(&cluster->redis[master]);
        return true;
    case BY_STANDSTILL:
        dlt_redis_pause(&cluster->redis[master], true);
        return true;
    case BY_DEAFNESS:
    case BY_DIVISION:
        return deafen(store, master, variant);
    case BY_HAND:
        return dlt_cluster_failover(cluster, partner(master), "");
    case BY_FORCE:
        return force(cluster, master, variant);
    case BY_SLOT:
        return slot_begin(store, variant);
    default:
        return force_and_move(store, master, variant);
    }
}

/* A move that has begun is carried on: what has moved would be lost. Masters may be others by now.
 */
static void slot_end(struct store *store)
{
    struct dlt_cluster *cluster = &store->cluster;

    for (int tries = 0; tries < TRIES && store->failed_to >= 0; tries++) {
        int master = dlt_cluster_master(cluster, store->failed_slot);
        int to = shard_master(cluster, store->failed_to, true);

        if (master >= 0 && master == to)
            return;
        (void)(slot_open(store, master, to) && slot_move(store, master, to));
        (void)poll(NULL, 0, AGAIN_MS);
    }
}

bool store_cluster_replaced(struct store *store)
{
    int master = dlt_cluster_master(&store->cluster, store->failed_slot);

    return store->failed_to >= 0 || (master >= 0 && master != store->failed_node);
}

bool store_cluster_failed(struct store *store)
{
    struct dlt_cluster *cluster = &store->cluster;
    int before = store->failed_node, master = -1;
    bool united = true;

    if (before < 0)
        return false;
    if (store->failed_way == BY_DIVISION && store->routed)
        united = store_unite(store);
    slot_end(store);
    master = dlt_cluster_master(cluster, store->failed_slot);
    if (store->failed_way == BY_DEATH)
        (void)dlt_redis_again(&cluster->redis[before]);
    else if (store->failed_way == BY_STANDSTILL)
        dlt_redis_pause(&cluster->redis[before], false);
    else if (store->failed_way == BY_DEAFNESS || store->failed_way == BY_DIVISION)
        (void)dlt_redis_ask(&cluster->redis[before], "DEBUG DROP-CLUSTER-PACKET-FILTER -1");
    (void)dlt_redis_ask(&cluster->redis[before], "ACL SETUSER default +@all");
    return united && master >= 0 && master != before;
}
