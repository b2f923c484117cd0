/* SPDX-License-Identifier: MIT */
/* Do the servers of tests fail over, and do their slots move? */
#include "cluster_server.h"
#include "sentinel_server.h"
#include "tap.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define KEY "dl:{name}"

static void failovers(void)
{
    static struct dlt_sentinels service;
    int first = -1, second = -1;

    dlt_ok(dlt_sentinels_start(&service, NULL), "three servers and three sentinels agree %s",
           service.why);
    first = dlt_sentinels_master(&service);
    dlt_ok(first == 0, "the first server is the master");
    dlt_ok(dlt_sentinels_failover(&service), "the sentinels accept a failover by hand");
    second = dlt_sentinels_master_wait(&service, first);
    dlt_ok(second > 0, "another server is the master");
    dlt_sentinels_part(&service, (unsigned)second, true);
    dlt_ok(dlt_sentinels_master_wait(&service, second) >= 0,
           "a master that is cut off is replaced");
    dlt_sentinels_part(&service, (unsigned)second, false);
    dlt_sentinels_stop(&service);
}

/* An old master that the sentinels cannot reach takes writes beside the next one. */
static void alone(void)
{
    static struct dlt_sentinels service;
    struct dlt_redis *first = &service.redis[0];

    dlt_ok(dlt_sentinels_start_alone(&service), "servers without min-replicas-to-write agree %s",
           service.why);
    dlt_ok(strstr(dlt_redis_ask(first, "CONFIG GET maxmemory"), "NOPERM") != NULL,
           "their settings are not for clients");
    dlt_sentinels_blind(&service, 0, true);
    (void)dlt_sentinels_failover(&service); /* refused if their own one has begun */
    dlt_ok(dlt_sentinels_master_wait(&service, 0) > 0, "another server is the master");
    dlt_ok(strcmp(dlt_redis_ask(first, "SET " KEY " 1"), "OK") == 0, "the one before goes on");
    dlt_sentinels_blind(&service, 0, false);
    for (int polls = 0;
         polls < 3000 && strstr(dlt_redis_ask(first, "INFO replication"), "role:slave") == NULL;
         polls++)
        (void)poll(NULL, 0, 20);
    dlt_ok(strstr(dlt_redis_ask(first, "INFO replication"), "role:slave") != NULL,
           "until the sentinels reach it");
    dlt_ok(strstr(dlt_redis_ask(first, "CONFIG GET maxmemory"), "NOPERM") != NULL,
           "and its settings are not for clients then either");
    dlt_sentinels_stop(&service);
}

static void slots(void)
{
    static struct dlt_cluster cluster;
    unsigned slot = 0, to = 0;
    int master = -1;

    dlt_ok(dlt_cluster_start(&cluster, NULL), "six servers are a cluster %s", cluster.why);
    slot = dlt_cluster_slot(&cluster, KEY);
    master = dlt_cluster_master(&cluster, slot);
    dlt_ok(master >= 0 && master < DLT_CLUSTER_MASTERS, "a slot has a master");
    if (master < 0)
        return;
    (void)dlt_redis_ask(&cluster.redis[master], "SET " KEY " 1");
    to = ((unsigned)master + 1) % DLT_CLUSTER_MASTERS;
    dlt_ok(dlt_cluster_slot_open(&cluster, slot, (unsigned)master, to), "the slot is opened");
    dlt_ok(dlt_cluster_slot_keys(&cluster, slot, (unsigned)master, to), "its keys move %s",
           cluster.why);
    dlt_ok(dlt_cluster_slot_give(&cluster, slot, (unsigned)master, to), "it is given away");
    dlt_ok(dlt_cluster_master_wait(&cluster, slot, master) == (int)to, "another master has it");
    dlt_ok(strcmp(dlt_redis_ask(&cluster.redis[to], "GET " KEY), "1") == 0, "and its key");
    dlt_ok(dlt_cluster_failover(&cluster, to + DLT_CLUSTER_MASTERS, ""), "a replica takes over");
    dlt_ok(dlt_cluster_master_wait(&cluster, slot, (int)to) == (int)to + DLT_CLUSTER_MASTERS,
           "the replica is the master of the slot");
    dlt_ok(dlt_cluster_whole_wait(&cluster), "the cluster is whole again");
    dlt_cluster_stop(&cluster);
}

int main(void)
{
    failovers();
    alone();
    slots();
    return dlt_done();
}
