/* SPDX-License-Identifier: MIT */
#include "cluster.h"

#define LOG_WARNING 1 /* DLOCK_LOG_WARNING of dlock.h */

bool etcd_cluster_is_same(struct etcd_cluster *cluster, uint64_t id)
{
    uint64_t before = 0;

    return atomic_compare_exchange_strong(&cluster->id, &before, id) || before == id;
}

void etcd_cluster_note(struct etcd_cluster *cluster, int64_t revision)
{
    int64_t known = atomic_load(&cluster->revision);

    while (revision > known && !atomic_compare_exchange_weak(&cluster->revision, &known, revision))
        continue;
}

void etcd_cluster_check(struct etcd_cluster *cluster, int64_t before, int64_t revision,
                        const char *endpoint)
{
    char line[300];

    etcd_cluster_note(cluster, revision);
    if (revision >= before || atomic_exchange(&cluster->warned, true))
        return;
    (void)snprintf(line, sizeof line,
                   "%s: the cluster has lost data: its revision went back from %lld to %lld. "
                   "Locks may be lost, and fencing tokens may repeat",
                   endpoint, (long long)before, (long long)revision);
    cluster->host->log(cluster->host->ctx, LOG_WARNING, line);
}
