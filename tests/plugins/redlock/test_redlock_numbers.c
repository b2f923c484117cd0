/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/take.c plugins/redlock/raise.c plugins/redlock/fence.c */
/*
 * Do fencing tokens rise when the nodes' clocks differ, nodes forget, and leases end in all ways?
 * Three real servers under a shim that moves their clocks (C6, TRY-6).
 */
#include "redlock_kit.h"
#include "skewed_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NODES     3
#define ROUNDS    1000
#define KILLS     4
#define APART_NS  INT64_C(300000000)
#define LIMIT_MS  60000
#define OPTIONS   "fence=on&restart_guard=1500ms&ttl=1s&op_timeout=5s&connect_timeout=30s"
#define VOTING_MS 3000

static struct dlt_nodes nodes;
static struct dlt_skewed skewed[NODES];
static uint64_t last;

static void start(int64_t first_ns, int64_t third_ns)
{
    memset(&nodes, 0, sizeof nodes);
    nodes.count = NODES;
    last = 0;
    for (unsigned i = 0; i < NODES; i++)
        dlt_skewed_start(&skewed[i], dlt_store_redis(&nodes.servers[i]));
    dlt_skewed_step(&skewed[0], first_ns);
    dlt_skewed_step(&skewed[2], third_ns);
}

static void stop(void)
{
    for (unsigned i = 0; i < NODES; i++)
        dlt_skewed_stop(&skewed[i]);
}

/* Starts empty, with its clock as before. */
static void forget(unsigned node)
{
    dlt_redis_kill(&nodes.servers[node]);
    cr_assert(dlt_skew_preload(skewed[node].file));
    cr_assert(dlt_redis_again(&nodes.servers[node]), "%s", nodes.servers[node].why);
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
}

static void risen(uint64_t fence, const char *how)
{
    cr_assert_gt(fence, last, "%" PRIu64 " after %" PRIu64 ": %s", fence, last, how);
    last = fence;
}

struct parties {
    struct dlock_client *clients[2];
    struct dlock *locks[2];
};

static void parties_open(struct parties *parties)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .ttl_ms = 1000, .fence = DLOCK_ON};

    for (int i = 0; i < 2; i++) {
        parties->clients[i] = dlt_nodes_client(&nodes, OPTIONS, false);
        OK(dlock_new(parties->clients[i], "x", 1, &options, &parties->locks[i], &dlt_err));
    }
}

static void parties_close(struct parties *parties)
{
    for (int i = 0; i < 2; i++) {
        dlock_free(parties->locks[i]);
        dlock_client_close(parties->clients[i]);
    }
}

/* By an unlock, mostly; by somebody else's break; by its own end. */
static void end_lease(struct parties *parties, int round)
{
    struct dlock *lock = parties->locks[round % 2];

    if (round % 97 == 50)
        (void)dlock_client_break(parties->clients[(round + 1) % 2], "x", 1, NULL, &dlt_err);
    (void)dlock_unlock(lock, &dlt_err);
}

static void turn(struct parties *parties, int round)
{
    struct dlock *lock = parties->locks[round % 2];

    OK(dlock_timedlock(lock, LIMIT_MS, &dlt_err));
    risen(dlock_fence(lock), round % 97 == 51 ? "a break" : "an unlock");
    end_lease(parties, round);
}

/* One node at a time forgets all, and the others vote meanwhile. */
static void turns_with_kills(struct parties *parties)
{
    int64_t killed_ms = dlt_now_ms();
    int round = 0;

    for (int kills = 0; round < ROUNDS || kills < KILLS; round++) {
        if (kills < KILLS && dlt_now_ms() - killed_ms > VOTING_MS) {
            forget((unsigned)kills++ % NODES);
            killed_ms = dlt_now_ms();
        }
        turn(parties, round);
        if (round >= ROUNDS)
            dlt_sleep_ms(2);
    }
}

Test(redlock_numbers, C6_over_nodes_that_forget_and_clocks_that_differ, .timeout = 180)
{
    struct parties parties;

    start(-APART_NS, APART_NS);
    dlt_sleep_ms(VOTING_MS);
    parties_open(&parties);
    turns_with_kills(&parties);
    parties_close(&parties);
    stop();
}

/* A lease that ends by itself leaves no counter: the clocks of its nodes have passed its number. */
Test(redlock_numbers, C6_after_a_lease_that_ran_out, .timeout = 60)
{
    struct dlock *lock = NULL, *next = NULL;
    struct dlock_client *client = NULL, *other = NULL;

    start(-APART_NS, APART_NS);
    client = dlt_nodes_client(&nodes, "fence=on", false);
    other = dlt_nodes_client(&nodes, "fence=on", false);
    for (int i = 0; i < 3; i++) {
        struct dlock_options options = {
            .struct_size = sizeof options, .ttl_ms = 700, .renew = DLOCK_OFF};

        OK(dlock_new(client, "x", 1, &options, &lock, &dlt_err));
        OK(dlock_timedlock(lock, LIMIT_MS, &dlt_err));
        risen(dlock_fence(lock), "an end");
        next = dlt_lock(other, "x", true);
        OK(dlock_timedlock(next, LIMIT_MS, &dlt_err));
        risen(dlock_fence(next), "an end");
        OK(dlock_unlock(next, &dlt_err));
        dlock_free(next);
        dlock_free(lock);
    }
    dlock_client_close(client);
    dlock_client_close(other);
    stop();
}

/* No two nodes whose clocks are within a ttl are a majority. */
Test(redlock_numbers, C6_clocks_that_are_too_far_apart_are_CONFIG, .timeout = 60)
{
    struct dlock_options options = {.struct_size = sizeof options, .ttl_ms = 1000};
    struct dlock_client *client = NULL;
    struct dlock *lock = NULL;

    start(-100 * APART_NS, 100 * APART_NS);
    client = dlt_nodes_client(&nodes, "fence=on", false);
    OK(dlock_new(client, "x", 1, &options, &lock, &dlt_err));
    STATUS(dlock_timedlock(lock, LIMIT_MS, &dlt_err), DLOCK_CONFIG);
    cr_expect_neq(strstr(dlt_err.message, "ms apart, and the ttl is 1000 ms"), NULL, "%s",
                  dlt_err.message);
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, 5000), "it was given back");
    dlock_free(lock);
    dlock_client_close(client);
    client = dlt_nodes_client(&nodes, NULL, false);
    lock = dlt_lock(client, "x", false);
    OK(dlock_timedlock(lock, LIMIT_MS, &dlt_err));
    cr_expect_eq(dlock_fence(lock), 0u);
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
    stop();
}

static uint64_t number_at(unsigned node)
{
    const char *value = dlt_redis_ask(&nodes.servers[node], "GET rl:{x}");
    uint64_t number = 0;

    return sscanf(value, "%*x %*u %" SCNu64, &number) == 1 ? number : 0;
}

/* [TRY-6] inspect and a break need no client that knows the token. */
Test(redlock_numbers, C6_a_majority_has_the_token_when_the_claim_begins, .timeout = 60)
{
    struct dlock_client *client = NULL;
    struct dlock *lock = NULL;

    start(-APART_NS, APART_NS);
    client = dlt_nodes_client(&nodes, "fence=on", false);
    for (int i = 0; i < 50; i++) {
        unsigned agree = 0;

        lock = dlt_lock(client, "x", false);
        OK(dlock_timedlock(lock, LIMIT_MS, &dlt_err));
        for (unsigned node = 0; node < NODES; node++)
            agree += number_at(node) == dlock_fence(lock);
        cr_expect_geq(agree, 2u, "round %d", i);
        OK(dlock_unlock(lock, &dlt_err));
        dlock_free(lock);
    }
    dlock_client_close(client);
    stop();
}
