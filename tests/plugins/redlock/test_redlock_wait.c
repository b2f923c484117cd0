/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/wait.c */
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
    struct dlock_handle *held, *wanted;
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

/* A majority of the nodes knows of it. */
static bool waits(const char *name)
{
    unsigned count = 0;

    for (unsigned i = 0; i < nodes.count; i++)
        count += strcmp(dlt_redis_ask(&nodes.servers[i], "ZCARD rl:{%s}:q", name), "1") == 0;
    return count > nodes.count / 2;
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
    struct dlock_client *client = dlt_nodes_client(&nodes, "poll_max=5s&node_timeout=5s", false);
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

/* SETs that all nodes executed; waits for at least so many. */
static long sets(long least)
{
    int64_t end_ms = dlt_now_ms() + 10000;
    long count = 0;

    do {
        count = 0;
        for (unsigned i = 0; i < nodes.count; i++)
            count += number_of(i, "commandstats", "cmdstat_set:calls=");
    } while (count < least && dlt_now_ms() < end_ms);
    return count;
}

/* A client whose session is connected to all nodes. */
static struct dlock_client *connected_client(void)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "node_timeout=5s", false);
    struct dlock_handle *lock = dlt_lock(client, "z", false);

    OK(dlock_timedlock(lock, 5000, &dlt_err));
    for (int i = 0; i < 100 && dlt_nodes_holding(&nodes, "z") < nodes.count; i++) {
        OK(dlock_renew(lock, 0, &dlt_err));
        dlt_sleep_ms(20);
    }
    OK(dlock_unlock(lock, &dlt_err));
    cr_assert(dlt_nodes_hold_soon(&nodes, "z", 0, 5000));
    dlock_free(lock);
    return client;
}

/* What takes a free name with the least work is not tried on one that is contended: its script
 * comes at once, and until the name is found free. */
Test(redlock_wait, TRY_1_a_name_that_was_busy_is_asked_for_by_the_script)
{
    struct dlock_client *holders = connected_client(), *client = connected_client();
    struct dlock_handle *held = dlt_lock(holders, "x", true), *lock = dlt_lock(client, "x", false);
    struct dlock_handle *other = dlt_lock(client, "y", false);
    long before = 0;

    OK(dlock_trylock(held, &dlt_err));
    cr_assert(dlt_nodes_hold_soon(&nodes, "x", 3, 5000));
    before = sets(0);
    for (int i = 0; i < 5; i++)
        STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    OK(dlock_trylock(other, &dlt_err)); /* behind them, on the same connections */
    cr_assert(dlt_nodes_hold_soon(&nodes, "y", 3, 5000));
    cr_expect_eq(sets(before + 6), before + 6);
    OK(dlock_unlock(held, &dlt_err));
    cr_assert(dlt_nodes_hold_soon(&nodes, "x", 0, 5000));
    OK(dlock_trylock(lock, &dlt_err));
    OK(dlock_unlock(lock, &dlt_err));
    OK(dlock_unlock(other, &dlt_err));
    dlock_free(held);
    dlock_free(lock);
    dlock_free(other);
    dlock_client_close(client);
    dlock_client_close(holders);
}
