/* SPDX-License-Identifier: MIT */
/* What do those who wait cost the nodes, and do they all get what they wait for? Real servers
 * (C13). */
#include "redlock_kit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAITERS = 12, SPARE = 4 };

static struct dlt_nodes nodes;

static void set_up(void)
{
    dlt_nodes_start(&nodes, 3, false);
}

static void tear_down(void)
{
    dlt_nodes_stop(&nodes);
}

TestSuite(redlock_wait, .init = set_up, .fini = tear_down, .timeout = 100);

struct waiter {
    pthread_t thread;
    char name[8];
    struct dlock *held, *wanted;
    enum dlock_status status;
};

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = dlock_timedlock(waiter->wanted, 60000, NULL);
    return NULL;
}

static long number_of(unsigned node, const char *section, const char *field)
{
    const char *at = strstr(dlt_redis_ask(&nodes.servers[node], "INFO %s", section), field);

    return at != NULL ? strtol(at + strlen(field), NULL, 10) : -1;
}

/* How many wait for the name, as the first node has it. */
static bool waits(const char *name)
{
    return strcmp(dlt_redis_ask(&nodes.servers[0], "ZCARD rl:{%s}:q", name), "1") == 0;
}

static void await_waiters(struct waiter *waiters)
{
    int64_t end_ms = dlt_now_ms() + 30000;

    for (unsigned i = 0; i < WAITERS; i++) {
        while (!waits(waiters[i].name)) {
            cr_assert_lt(dlt_now_ms(), end_ms);
            dlt_sleep_ms(10);
        }
    }
}

/* Who sleeps needs no connection: one a node tells the client of releases, and a few are kept. */
Test(redlock_wait, C13_sleepers_share_connections)
{
    struct dlock_client *holders = dlt_nodes_client(&nodes, NULL, false);
    struct dlock_client *client = dlt_nodes_client(&nodes, "poll_max=1m", false);
    struct waiter waiters[WAITERS];
    long before = 0, now = 0;
    int64_t end_ms = 0;

    for (unsigned i = 0; i < WAITERS; i++) {
        struct waiter *waiter = &waiters[i];

        (void)snprintf(waiter->name, sizeof waiter->name, "w%u", i);
        waiter->held = dlt_lock(holders, waiter->name, true);
        waiter->wanted = dlt_lock(client, waiter->name, false);
        OK(dlock_timedlock(waiter->held, 5000, &dlt_err));
    }
    before = number_of(0, "clients", "connected_clients:");
    for (unsigned i = 0; i < WAITERS; i++)
        cr_assert_eq(pthread_create(&waiters[i].thread, NULL, wait_for_it, &waiters[i]), 0);
    await_waiters(waiters);
    end_ms = dlt_now_ms() + 20000;
    do {
        now = number_of(0, "clients", "connected_clients:");
        dlt_sleep_ms(20);
    } while (now > before + SPARE + 2 && dlt_now_ms() < end_ms);
    cr_expect_leq(now, before + SPARE + 2, "%ld connections, %ld before", now, before);
    for (unsigned i = 0; i < WAITERS; i++)
        OK(dlock_unlock(waiters[i].held, &dlt_err));
    for (unsigned i = 0; i < WAITERS; i++) {
        (void)pthread_join(waiters[i].thread, NULL);
        cr_expect_eq(waiters[i].status, DLOCK_OK, "%s: %s", waiters[i].name,
                     dlock_status_name((int)waiters[i].status));
        OK(dlock_unlock(waiters[i].wanted, &dlt_err));
        dlock_free(waiters[i].held);
        dlock_free(waiters[i].wanted);
    }
    dlock_client_close(client);
    dlock_client_close(holders);
}
