/* SPDX-License-Identifier: MIT */
/* Does a node that forgot have no vote, if the connection to it outlives that? (C1, CRASH_SAFE) */
#include "hiding_proxy.h"
#include "redlock_kit.h"

#include <stdio.h>
#include <string.h>

enum { GUARD_MS = 4000, FORGET = 2 }; /* ms; nodes, a majority */

static struct dlt_nodes nodes;
static struct dlt_hiding_proxy proxies[3];
static struct dlt_redis other;
static struct dlock_client *holder, *idle;
static struct dlock_handle *held, *wanted;

static void set_up(void)
{
    dlt_nodes_start(&nodes, 3, false);
    dlt_sleep_ms(GUARD_MS + 1500);
}

static struct dlock_client *client_open(const char *const *addresses)
{
    char uri[256];
    struct dlock_client *client = NULL;

    (void)snprintf(uri, sizeof uri, "redlock://%s,%s,%s?restart_guard=4s&ttl=2s", addresses[0],
                   addresses[1], addresses[2]);
    OK(dlock_client_open(uri, NULL, &client, &dlt_err));
    return client;
}

/* One client holds "x" on all nodes, and another one has asked for it. */
static void hold(const char *const *addresses)
{
    holder = client_open(addresses);
    idle = client_open(addresses);
    held = dlt_lock(holder, "x", false);
    wanted = dlt_lock(idle, "x", false);
    OK(dlock_timedlock(held, 10000, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "x", held));
    STATUS(dlock_trylock(wanted, &dlt_err), DLOCK_BUSY);
}

static void tear_down(void)
{
    dlock_free(held);
    dlock_free(wanted);
    dlock_client_close(holder);
    dlock_client_close(idle);
    for (unsigned i = 0; i < 3; i++)
        if (proxies[i].to != 0)
            dlt_hiding_proxy_stop(&proxies[i]);
    dlt_redis_stop(&other);
    dlt_nodes_stop(&nodes);
}

TestSuite(redlock_changed, .init = set_up, .fini = tear_down, .timeout = 120);

/* Nobody gets "x" until the guards are over; then somebody does. */
static void not_granted_before(struct dlock_handle *lock, int64_t end_ms)
{
    enum dlock_status status = DLOCK_BUSY;

    while (status != DLOCK_OK && dlt_now_ms() < end_ms + 20000) {
        status = dlock_trylock(lock, &dlt_err);
        if (status == DLOCK_OK)
            cr_assert_geq(dlt_now_ms(), end_ms, "%lld ms early",
                          (long long)(end_ms - dlt_now_ms()));
        else
            dlt_sleep_ms(20);
    }
    cr_assert_eq(status, DLOCK_OK, "%s", dlt_err.message);
    OK(dlock_unlock(lock, &dlt_err));
}

Test(redlock_changed, CRASH_SAFE_nodes_whose_restart_a_proxy_hides)
{
    const char *addresses[3];
    int64_t up_ms = 0;

    for (unsigned i = 0; i < 3; i++) {
        cr_assert(dlt_hiding_proxy_start(&proxies[i], nodes.servers[i].port));
        addresses[i] = proxies[i].address;
    }
    hold(addresses);
    for (unsigned i = 0; i < FORGET; i++)
        dlt_redis_kill(&nodes.servers[i]);
    up_ms = dlt_now_ms();
    for (unsigned i = 0; i < FORGET; i++)
        cr_assert(dlt_redis_again(&nodes.servers[i]), "%s", nodes.servers[i].why);
    not_granted_before(wanted, up_ms + GUARD_MS);
}

/* ... and are promoted: they have the data of the other server. */
static void forget_by_replication(void)
{
    cr_assert(dlt_redis_start(&other, (const char *[]){"--repl-diskless-sync-delay", "0", NULL}));
    for (unsigned i = 0; i < FORGET; i++)
        (void)dlt_redis_ask(&nodes.servers[i], "REPLICAOF 127.0.0.1 %u", other.port);
    for (unsigned i = 0; i < FORGET; i++) {
        while (strstr(dlt_redis_ask(&nodes.servers[i], "INFO replication"),
                      "master_link_status:up") == NULL)
            dlt_sleep_ms(20);
        (void)dlt_redis_ask(&nodes.servers[i], "REPLICAOF NO ONE");
    }
}

Test(redlock_changed, CRASH_SAFE_nodes_that_were_replicas_for_a_moment)
{
    const char *const addresses[] = {nodes.servers[0].address, nodes.servers[1].address,
                                     nodes.servers[2].address};
    int64_t since_ms = 0;

    hold(addresses);
    since_ms = dlt_now_ms();
    forget_by_replication();
    not_granted_before(wanted, since_ms + GUARD_MS);
}

/* It does not know when they were promoted. */
Test(redlock_changed, CRASH_SAFE_a_new_client_of_nodes_that_were_replicas)
{
    const char *const addresses[] = {nodes.servers[0].address, nodes.servers[1].address,
                                     nodes.servers[2].address};
    int64_t since_ms = 0;

    hold(addresses);
    dlock_free(wanted);
    dlock_client_close(idle);
    forget_by_replication();
    since_ms = dlt_now_ms();
    idle = client_open(addresses);
    wanted = dlt_lock(idle, "x", false);
    not_granted_before(wanted, since_ms + GUARD_MS);
}
