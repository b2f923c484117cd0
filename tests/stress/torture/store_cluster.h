/* SPDX-License-Identifier: MIT */
/* store_cluster.h - what goes wrong in a Redis Cluster: masters are replaced, and slots move. */
#ifndef TORTURE_STORE_CLUSTER_H
#define TORTURE_STORE_CLUSTER_H

#include "store.h"

bool store_cluster_start(struct store *store);
/* The settings of the guard come from the servers. */
void store_cluster_uri(const struct store *store, char *uri, size_t size);

/* What is done in that way; NULL: no such one. */
const char *store_cluster_way(unsigned way);

bool store_cluster_ready(struct store *store, uint32_t variant);
/* As store_fail, store_replaced and store_failed. It hits the shard of one of the first names. A
 * moved slot counts as a master that was replaced. */
bool store_cluster_fail(struct store *store, uint32_t variant);
bool store_cluster_replaced(struct store *store);
bool store_cluster_failed(struct store *store);

#endif
