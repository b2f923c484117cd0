/* SPDX-License-Identifier: MIT */
/* store_uri.c - how a client comes to a store. */
#include "store.h"
#include "store_command.h"

#include <stdio.h>
#include <string.h>

/* "SCHEME://A,B,C": the client's ways to all nodes. */
static size_t ways_uri(const struct store *store, unsigned client, const char *scheme, char *uri,
                       size_t size)
{
    size_t used = (size_t)snprintf(uri, size, "%s://", scheme);

    for (unsigned node = 0; node < store->backend->nodes; node++)
        used += (size_t)snprintf(uri + used, size - used, "%s%s", node > 0 ? "," : "",
                                 store->ways[client][node].address);
    return used;
}

/* The guard is longer than any lease. */
static void majority_uri(const struct store *store, unsigned client, char *uri, size_t size)
{
    size_t used = ways_uri(store, client, "redlock", uri, size);

    (void)snprintf(uri + used, size - used, "?ttl=1s&restart_guard=%s%s",
                   store->forgets ? "0" : "3s", store->backend->fences ? "&fence=on" : "");
}

void store_uri(const struct store *store, unsigned client, char *uri, size_t size)
{
    const struct dlt_proxy *way = &store->ways[client][0];
    size_t used = 0;

    switch (store->backend->kind) {
    case STORE_MEMORY:
        (void)snprintf(uri, size, "memory://torture?waiter_lease=1s");
        break;
    case STORE_SQLITE:
        (void)snprintf(uri, size, "sqlite://%s/locks.db?waiter_lease=1s", store->directory);
        break;
    case STORE_REDIS:
        if (store->backend->majority)
            majority_uri(store, client, uri, size);
        else
            (void)snprintf(uri, size, "redis://%s?waiter_lease=1s&restart_guard=0", way->address);
        break;
    case STORE_SENTINEL:
    case STORE_CLUSTER:
        store_failover_uri(store, uri, size);
        break;
    case STORE_MYSQL:
        (void)snprintf(uri, size, "mysql://u:secret@%s/locks?strategy=%s", way->address,
                       store->backend->strategy);
        if (store->backend->session)
            (void)snprintf(uri + strlen(uri), size - strlen(uri), "&session_grace=%dms",
                           SESSION_GRACE_MS);
        break;
    case STORE_POSTGRESQL:
        (void)snprintf(uri, size, "postgresql://u:secret@%s/locks?strategy=%s&%s", way->address,
                       store->backend->strategy,
                       store->backend->session ? "session_grace=2s" : "waiter_lease=1s");
        break;
    case STORE_ETCD:
        used = ways_uri(store, client, "etcd", uri, size);
        (void)snprintf(uri + used, size - used, "?waiter_lease=1s");
        break;
    case STORE_ZOOKEEPER:
        used = ways_uri(store, client, "zk", uri, size);
        (void)snprintf(uri + used, size - used, "/torture?ttl=1s");
        break;
    case STORE_COMMAND:
        store_command_uri(store, client, uri, size);
        break;
    }
}
