/* SPDX-License-Identifier: MIT */
/* store_choose.c - whom a fault hits, and whether servers have chosen a leader. */
#include "store.h"

unsigned store_choose(const struct store *store, unsigned node, uint32_t variant)
{
    int leading = -1;

    if ((variant >> 12 & 1) == 0)
        return node;
    if (store->backend->kind == STORE_ETCD)
        leading = dlt_etcd_leader(&store->etcd);
    else if (store->backend->kind == STORE_ZOOKEEPER)
        leading = dlt_zk_leader(&store->zk);
    return leading >= 0 ? (unsigned)leading : node;
}

unsigned store_choose_way(struct store *store, unsigned client, unsigned node)
{
    if (store->backend->kind != STORE_ZOOKEEPER || node == store->backend->nodes)
        return node;
    for (unsigned i = 0; i < store->backend->nodes; i++)
        if (dlt_proxy_count(&store->ways[client][i], 0, "open") > 0)
            return i;
    return node;
}

unsigned store_choose_used(struct store *store, unsigned node)
{
    const unsigned nodes = store->backend->kind == STORE_ZOOKEEPER ? store->backend->nodes : 0;

    for (unsigned i = 0; i < nodes; i++) {
        unsigned other = (node + i) % nodes;
        for (unsigned client = 0; client < store->clients; client++)
            if (dlt_proxy_count(&store->ways[client][other], 0, "open") > 0)
                return other;
    }
    return node;
}

unsigned store_choose_still(const struct store *store, unsigned node, uint32_t variant)
{
    if (store->backend->kind != STORE_ETCD || store->backend->nodes < 2)
        return store_choose(store, node, variant);
    return (int)node == dlt_etcd_leader(&store->etcd) ? (node + 1) % store->backend->nodes : node;
}

bool store_serves(const struct store *store)
{
    return store->backend->kind != STORE_ZOOKEEPER || store->backend->nodes < 2 ||
           dlt_zk_has_quorum(&store->zk);
}
