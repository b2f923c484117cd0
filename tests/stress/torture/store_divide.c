/* SPDX-License-Identifier: MIT */
#include "store_divide.h"
#include "through.h"

#include <stdio.h>
#include <string.h>

_Static_assert(2 * DLT_SENTINELS_COUNT <= NODES_MOST, "a way to each server and to each sentinel");

/* Of a cluster, or servers and after them the sentinels that watch them. */
static unsigned servers_count(const struct store *store)
{
    return store->backend->kind == STORE_CLUSTER ? DLT_CLUSTER_COUNT : 2 * DLT_SENTINELS_COUNT;
}

static const char *address_of(const struct store *store, unsigned node, unsigned *port)
{
    const struct dlt_redis *server = store->backend->kind == STORE_CLUSTER
                                         ? &store->cluster.redis[node]
                                         : &store->sentinels.redis[node % DLT_SENTINELS_COUNT];
    const struct dlt_sentinel *sentinel = &store->sentinels.sentinels[node % DLT_SENTINELS_COUNT];
    bool watches = store->backend->kind == STORE_SENTINEL && node >= DLT_SENTINELS_COUNT;

    *port = watches ? sentinel->port : server->port;
    return watches ? sentinel->address : server->address;
}

bool store_divide_start(struct store *store)
{
    char program[4200];
    const struct dlt_proxy_options options = {.program =
                                                  dlt_through_program(program, sizeof program)};

    for (unsigned client = 0; store->routed && client < store->clients; client++)
        for (unsigned node = 0; node < servers_count(store); node++) {
            struct dlt_proxy *way = &store->ways[client][node];
            unsigned port = 0;

            if (dlt_proxy_start(way, address_of(store, node, &port), "resp", &options))
                continue;
            (void)snprintf(store->why, sizeof store->why, "a proxy: %.200s", way->answer);
            return false;
        }
    return true;
}

void store_divide_stop(struct store *store)
{
    for (unsigned client = 0; store->routed && client < store->clients; client++)
        for (unsigned node = 0; node < servers_count(store); node++)
            if (store->ways[client][node].pid > 0)
                (void)dlt_proxy_stop(&store->ways[client][node]);
}

void store_routes(const struct store *store, unsigned client, char *text, size_t size)
{
    size_t used = 0;
    unsigned port = 0;

    *text = '\0';
    for (unsigned node = 0; store->routed && node < servers_count(store); node++) {
        (void)address_of(store, node, &port);
        used += (size_t)snprintf(text + used, size - used, "%s%u=%u", node > 0 ? "," : "", port,
                                 store->ways[client][node].port);
    }
}

static int64_t swallowed(struct store *store)
{
    int64_t sum = 0;

    for (unsigned client = 0; client < store->clients; client++)
        for (unsigned node = 0; node < servers_count(store); node++)
            sum += dlt_proxy_count(&store->ways[client][node], 0, "c2s.swallowed") +
                   dlt_proxy_count(&store->ways[client][node], 0, "s2c.swallowed");
    return sum;
}

bool store_divide(struct store *store, unsigned master, uint32_t variant)
{
    bool right = true;

    store->swallowed = -swallowed(store);
    for (unsigned client = 0; client < store->clients; client++) {
        bool inside = ((variant >> 24 ^ client) & 1) != 0;

        for (unsigned node = 0; node < servers_count(store); node++)
            if ((node == master) != inside)
                right = dlt_proxy_tell(&store->ways[client][node], "blackhole both") && right;
    }
    return right;
}

bool store_unite(struct store *store)
{
    bool right = true;

    store->swallowed += swallowed(store);
    for (unsigned client = 0; client < store->clients; client++)
        for (unsigned node = 0; node < servers_count(store); node++)
            right = dlt_proxy_tell(&store->ways[client][node], "pass") && right;
    return right && store->swallowed > 0;
}
