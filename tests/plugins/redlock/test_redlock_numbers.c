/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/take.c plugins/redlock/fence.c */
/*
 * Do fencing tokens rise when the nodes' clocks differ and are set back, nodes forget, and leases
 * end in all ways? Three real servers under a shim that moves their clocks (C6, TRY-6).
 * DLT_SEED: of the kills and clocks.
 */
#include "drop.h"
#include "redlock_kit.h"
#include "skewed_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NODES    3
#define ROUNDS   1000
#define KILLS    5
#define MS_NS    INT64_C(1000000)
#define APART_NS (300 * MS_NS)
#define STEP_MS  60 /* back, of each clock at each kill: less than restart_guard - ttl */
#define SET_MS   1000
#define LIMIT_MS 60000
/* No lease is longer than the guard; one that is lost is taken again. */
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

/* After dlt_redis_kill: starts empty, with its clock as before. */
static void again(unsigned node)
{
    cr_assert(dlt_skew_preload(skewed[node].file));
    cr_assert(dlt_redis_again(&nodes.servers[node]), "%s", nodes.servers[node].why);
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
}

static uint64_t chance_seed, chance_state;

static void chance_begin(void)
{
    const char *seed = getenv("DLT_SEED");

    chance_seed = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    chance_state = chance_seed;
    (void)fprintf(stderr, "# DLT_SEED=%" PRIu64 "\n", chance_seed);
}

/* A number below the limit. */
static unsigned chance(unsigned limit)
{
    chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(chance_state >> 33) % limit;
}

static void risen(uint64_t fence, const char *how)
{
    cr_assert_gt(fence, last, "%" PRIu64 " after %" PRIu64 ": %s (DLT_SEED=%" PRIu64 ")", fence,
                 last, how, chance_seed);
    last = fence;
}

struct parties {
    struct dlock_client *clients[2];
    struct dlock_handle *locks[2];
};

static void parties_open(struct parties *parties)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 1000,
                                    .fence = DLOCK_ON};

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
    struct dlock_handle *lock = parties->locks[round % 2];

    if (round % 97 == 50)
        (void)dlock_client_break(parties->clients[(round + 1) % 2], "x", 1, NULL, &dlt_err);
    dlt_drop(dlock_unlock(lock, &dlt_err));
}

static void turn(struct parties *parties, int round)
{
    struct dlock_handle *lock = parties->locks[round % 2];

    OK(dlock_timedlock(lock, LIMIT_MS, &dlt_err));
    risen(dlock_fence(lock), round % 97 == 51 ? "a break" : "an unlock");
    end_lease(parties, round);
}

static void clocks_set(int from_ms, unsigned range_ms)
{
    for (unsigned i = 0; i < NODES; i++) {
        int by_ms = from_ms + (int)chance(range_ms);

        (void)fprintf(stderr, "# clock %u: %d ms\n", i, by_ms);
        dlt_skewed_step(&skewed[i], by_ms * MS_NS);
    }
}

static void forget_one(void)
{
    unsigned node = chance(NODES);

    (void)fprintf(stderr, "# node %u forgets\n", node);
    dlt_redis_kill(&nodes.servers[node]);
    clocks_set(-STEP_MS, STEP_MS);
    again(node);
}

/* One node at a time forgets all, and the others vote meanwhile. */
static void turns_with_kills(struct parties *parties)
{
    int64_t due_ms = dlt_now_ms() + VOTING_MS;
    int round = 0;

    for (int kills = 0; round < ROUNDS || kills < KILLS; round++) {
        if (kills < KILLS && dlt_now_ms() > due_ms) {
            forget_one();
            kills++;
            due_ms = dlt_now_ms() + VOTING_MS + chance(1000);
        }
        turn(parties, round);
        if (round >= ROUNDS)
            dlt_sleep_ms(2);
    }
}

Test(redlock_numbers, C6_over_nodes_that_forget_and_clocks_that_differ, .timeout = 180)
{
    struct parties parties;

    chance_begin();
    start(0, 0);
    clocks_set(-250, 500);
    dlt_sleep_ms(VOTING_MS);
    parties_open(&parties);
    turns_with_kills(&parties);
    parties_close(&parties);
    stop();
}

/* By a client that knows only of the clocks as they are now. */
static void risen_anew(const char *how)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "fence=on", false);
    struct dlock_handle *lock = dlt_lock(client, "x", false);

    OK(dlock_timedlock(lock, LIMIT_MS, &dlt_err));
    risen(dlock_fence(lock), how);
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

/* The third clock was behind all the time. */
Test(redlock_numbers, C6_after_clocks_that_were_set_back, .timeout = 60)
{
    start(0, -SET_MS * MS_NS);
    risen_anew("the first one");
    dlt_sleep_ms(300); /* until servers have removed what is to end soon */
    dlt_skewed_step(&skewed[0], -SET_MS * MS_NS);
    dlt_skewed_step(&skewed[1], -SET_MS * MS_NS);
    risen_anew("clocks were set back after an unlock");
    stop();
}

Test(redlock_numbers, C6_after_a_lease_that_ran_out_and_clocks_that_were_set_back, .timeout = 60)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 500,
                                    .renew = DLOCK_OFF};
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;

    start(0, 0);
    client = dlt_nodes_client(&nodes, "fence=on", false);
    OK(dlock_new(client, "x", 1, &options, &lock, &dlt_err));
    OK(dlock_timedlock(lock, LIMIT_MS, &dlt_err));
    risen(dlock_fence(lock), "the first one");
    cr_assert(dlt_nodes_hold_soon(&nodes, "x", 0, LIMIT_MS));
    for (unsigned i = 0; i < NODES; i++)
        dlt_skewed_step(&skewed[i], -SET_MS * MS_NS);
    risen_anew("clocks were set back after the end of a lease");
    dlock_free(lock);
    dlock_client_close(client);
    stop();
}

/* The first client has the nodes 0 and 2, the next one has 1 and 2: what they have in common is a
 * number that node 2 was asked to raise, as its clock is far behind that of node 0. */
Test(redlock_numbers, C6_a_number_that_was_raised_is_kept, .timeout = 60)
{
    start(SET_MS * MS_NS, 0);
    dlt_redis_kill(&nodes.servers[1]);
    risen_anew("the first one");
    dlt_redis_kill(&nodes.servers[0]);
    again(1);
    risen_anew("the number is not that of a clock");
    stop();
}

/* The claim would outlive the proof: a node that forgets could give a smaller number. */
Test(redlock_numbers, C6_clocks_that_were_set_back_by_more_than_the_ttl, .timeout = 60)
{
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;

    start(0, 0);
    risen_anew("the first one");
    for (unsigned i = 0; i < NODES; i++)
        dlt_skewed_step(&skewed[i], -100 * SET_MS * MS_NS);
    client = dlt_nodes_client(&nodes, "fence=on", false);
    lock = dlt_lock(client, "x", false);
    STATUS(dlock_trylock(lock, &dlt_err), DLOCK_UNAVAILABLE);
    cr_expect_neq(strstr(dlt_err.message, "have to catch up"), NULL, "%s", dlt_err.message);
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, LIMIT_MS), "it was given back");
    dlock_free(lock);
    dlock_client_close(client);
    for (unsigned i = 0; i < NODES; i++)
        dlt_skewed_step(&skewed[i], 100 * SET_MS * MS_NS);
    risen_anew("clocks were set back, and forward");
    stop();
}

Test(redlock_numbers, C6_after_a_lease_that_ran_out, .timeout = 60)
{
    struct dlock_handle *lock = NULL, *next = NULL;
    struct dlock_client *client = NULL, *other = NULL;

    start(-APART_NS, APART_NS);
    client = dlt_nodes_client(&nodes, "fence=on", false);
    other = dlt_nodes_client(&nodes, "fence=on", false);
    for (int i = 0; i < 3; i++) {
        struct dlock_options options = {.struct_size = sizeof options,
                                        .wait_ms = DLOCK_AS_OPTIONS,
                                        .ttl_ms = 700,
                                        .renew = DLOCK_OFF};

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
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = 1000};
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;

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
    struct dlock_handle *lock = NULL;

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
