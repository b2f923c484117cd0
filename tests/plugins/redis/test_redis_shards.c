/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/servers/cluster.c */
/* Are addresses of a cluster forgotten, and never one that is in use? No server is asked. */
#include "redis/servers/cluster.h"

#include <criterion/criterion.h>

#define MANY (REDIS_MASTERS_MOST + 50)

static struct dlock_host host;
static struct resp_config config;
static struct redis_cluster *cluster;

static void set_up(void)
{
    cluster = redis_cluster_new(NULL, &host, &config, NULL, NULL, 0, 2);
    cr_assert_not_null(cluster);
}

static void tear_down(void)
{
    redis_cluster_free(cluster);
}

TestSuite(shards, .init = set_up, .fini = tear_down);

static struct redis_shard *at(unsigned port)
{
    const struct address address = {.host = "127.0.0.1", .port = (uint16_t)port};

    return redis_cluster_shard_at(cluster, &address);
}

/* C8: a cluster whose servers get new addresses for years. */
Test(shards, C8_there_is_room_for_each_new_address)
{
    for (unsigned port = 1; port <= MANY; port++) {
        struct redis_shard *shard = at(port);

        cr_assert_not_null(shard, "the address %u", port);
        cr_assert_eq(shard->config.address.port, port);
        redis_cluster_put(cluster, shard);
    }
}

Test(shards, one_that_is_in_use_or_has_slots_stays)
{
    struct redis_shard *used = at(1), *owner = at(2);

    redis_cluster_moved(cluster, 7, owner);
    redis_cluster_put(cluster, owner);
    for (unsigned port = 3; port <= MANY; port++)
        redis_cluster_put(cluster, at(port));
    cr_assert_eq(used->config.address.port, 1);
    cr_assert_eq(at(1), used);
    redis_cluster_put(cluster, used);
    redis_cluster_put(cluster, used);
    cr_assert_eq(redis_cluster_shard(cluster, 7), owner);
    cr_assert_eq(owner->config.address.port, 2);
    redis_cluster_put(cluster, owner);
}

/* FAI-2: the client announced what the first master has. */
Test(shards, FAI_2_each_server_is_compared_with_what_was_announced)
{
    struct redis_shard *before = at(1), *after = NULL;

    redis_cluster_announce(cluster, DLOCK_CAP_FENCE | DLOCK_CAP_FAILOVER_SAFE);
    after = at(2);
    cr_assert_eq(atomic_load(&before->pool.caps), DLOCK_CAP_FENCE | DLOCK_CAP_FAILOVER_SAFE);
    cr_assert_eq(atomic_load(&after->pool.caps), DLOCK_CAP_FENCE | DLOCK_CAP_FAILOVER_SAFE);
    redis_cluster_put(cluster, before);
    redis_cluster_put(cluster, after);
}

Test(shards, NOBODY_if_all_are_in_use)
{
    for (unsigned port = 1; port <= REDIS_MASTERS_MOST; port++)
        cr_assert_not_null(at(port));
    cr_assert_null(at(REDIS_MASTERS_MOST + 1));
}
