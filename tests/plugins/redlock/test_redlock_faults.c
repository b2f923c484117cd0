/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a lock when nodes die, hang, forget, or answer too late? Five real servers
 * (failures T53, T54, T57; C1, C3, C4, C7, C8).
 */
#include "redlock_kit.h"
#include "ruler.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct dlt_nodes nodes;

static void set_up(void)
{
    dlt_nodes_start(&nodes, 5, false);
}

static void tear_down(void)
{
    dlt_nodes_stop(&nodes);
}

TestSuite(redlock_faults, .init = set_up, .fini = tear_down, .timeout = 100);

/* T53: two of five may die; with three dead a call says so, with a line for each node, and what it
 * took meanwhile is given back. */
Test(redlock_faults, C4_a_minority_may_die_and_a_majority_is_said_to_be_missing)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "op_timeout=2s", false);
    struct dlock_handle *lock = dlt_lock(client, "x", false);

    for (unsigned dead = 0; dead <= 2; dead++) {
        if (dead > 0)
            dlt_redis_kill(&nodes.servers[dead]);
        OK(dlock_timedlock(lock, 5000, &dlt_err));
        cr_expect_geq(dlt_nodes_holding(&nodes, "x"), 3u);
        OK(dlock_unlock(lock, &dlt_err));
        cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, 1000));
    }
    for (unsigned dead = 3; dead <= 5; dead++) {
        int64_t start_ms = dlt_now_ms();
        enum dlock_status status = DLOCK_OK;

        dlt_redis_kill(&nodes.servers[dead % 5]);
        status = dlock_trylock(lock, &dlt_err);
        /* The first call may find connections that die under it. */
        if (status == DLOCK_UNKNOWN)
            status = dlock_trylock(lock, &dlt_err);
        STATUS(status, DLOCK_NO_QUORUM);
        cr_expect(dlt_took_within(dlt_now_ms() - start_ms, 9000), "%s", dlt_within_text());
        cr_expect_eq(dlt_err.node_count, 5u);
        cr_expect_eq(dlt_err.nodes[1].status, DLOCK_UNAVAILABLE, "%s", dlt_err.nodes[1].message);
        cr_expect_neq(dlt_err.nodes[1].message[0], '\0');
        cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, 1000));
    }
    dlock_free(lock);
    dlock_client_close(client);
}

static unsigned descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    cr_assert_not_null(dir);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

static int ascending(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

    return (one > other) - (one < other);
}

static int64_t median_pair_us(struct dlock_handle *lock)
{
    enum { PAIRS = 200 };
    int64_t took_us[PAIRS];

    for (int i = 0; i < PAIRS; i++) {
        struct timespec start, end;

        (void)clock_gettime(CLOCK_MONOTONIC, &start);
        OK(dlock_timedlock(lock, 20000, &dlt_err));
        OK(dlock_unlock(lock, &dlt_err));
        (void)clock_gettime(CLOCK_MONOTONIC, &end);
        took_us[i] = (end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000;
    }
    qsort(took_us, PAIRS, sizeof took_us[0], ascending);
    return took_us[PAIRS / 2];
}

/* T54: a hung minority costs less than one node's timeout, not one each, nor each time; nothing
 * grows; and what it granted when it went on ends with the ttl at the latest. */
Test(redlock_faults, C8_nobody_waits_for_nodes_that_hang)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "node_timeout=400ms", false);
    struct dlock_handle *lock = dlt_lock(client, "x", false);
    int64_t healthy_us = 0, hung_us = 0, hung_ms = 0;
    unsigned before = 0;

    OK(dlock_timedlock(lock, 5000, &dlt_err));
    OK(dlock_unlock(lock, &dlt_err));
    healthy_us = median_pair_us(lock);
    dlt_redis_pause(&nodes.servers[1], true);
    dlt_redis_pause(&nodes.servers[3], true);
    hung_ms = dlt_now_ms();
    before = descriptors();
    hung_us = median_pair_us(lock);
    cr_log_info("a pair takes %lld us, with 2 of 5 nodes hung %lld us", (long long)healthy_us,
                (long long)hung_us);
    cr_expect_leq(descriptors(), before + 2);
    cr_expect_leq(hung_us, healthy_us + 200000, "a pair takes %lld us, with 2 of 5 nodes hung %lld",
                  (long long)healthy_us, (long long)hung_us);
    dlt_redis_pause(&nodes.servers[1], false);
    dlt_redis_pause(&nodes.servers[3], false);
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, DLT_TTL_MS + 1000), "after %lld ms of hanging",
              (long long)(dlt_now_ms() - hung_ms));
    dlock_free(lock);
    dlock_client_close(client);
}

/* C9: when the connections to all nodes have ended, the next lock takes as long as new ones take,
 * not as long as an answer may. */
Test(redlock_faults, C9_connections_that_ended_are_made_anew_at_once)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "op_timeout=20s&spin=off", false);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 60000,
                                    .renew = DLOCK_OFF};
    struct dlock_handle *lock = NULL;

    OK(dlock_new(client, "x", 1, &options, &lock, &dlt_err));
    for (int i = 0; i < 4; i++) {
        int64_t start_ms = dlt_now_ms();

        OK(dlock_timedlock(lock, 60000, &dlt_err));
        OK(dlock_unlock(lock, &dlt_err));
        cr_expect(dlt_took_within(dlt_now_ms() - start_ms, 10000), "%s", dlt_within_text());
        for (unsigned node = 0; node < 5; node++)
            (void)dlt_redis_ask(&nodes.servers[node], "CLIENT KILL TYPE normal");
        dlt_sleep_ms(20 * i);
    }
    dlock_free(lock);
    dlock_client_close(client);
}

/* C4, C8: a hung majority may have taken the request. */
Test(redlock_faults, C4_a_majority_that_hangs_leaves_it_unknown)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "op_timeout=500ms", false);
    struct dlock_handle *lock = dlt_lock(client, "x", false);
    int64_t start_ms = 0;

    OK(dlock_timedlock(lock, 5000, &dlt_err));
    OK(dlock_unlock(lock, &dlt_err));
    for (unsigned i = 0; i < 3; i++)
        dlt_redis_pause(&nodes.servers[i], true);
    start_ms = dlt_now_ms();
    STATUS(dlock_trylock(lock, &dlt_err), DLOCK_UNKNOWN);
    cr_expect(dlt_took_within(dlt_now_ms() - start_ms, 20000), "%s", dlt_within_text());
    for (unsigned i = 0; i < 3; i++)
        dlt_redis_pause(&nodes.servers[i], false);
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, DLT_TTL_MS + 1000));
    OK(dlock_timedlock(lock, 5000, &dlt_err));
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

/* Nodes restarted empty, one after another, while the lock is held: each gets it back before the
 * next one goes, and nobody else gets in. */
Test(redlock_faults, C1_what_a_minority_forgets_is_put_back)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, NULL, false);
    struct dlock_client *rivals = dlt_nodes_client(&nodes, NULL, false);
    struct dlock_handle *lock = dlt_lock(client, "x", true), *rival = dlt_lock(rivals, "x", false);

    OK(dlock_timedlock(lock, 5000, &dlt_err));
    for (unsigned i = 0; i < 5; i++) {
        cr_assert(dlt_nodes_hold_soon(&nodes, "x", 5, 4 * DLT_TTL_MS), "node %u", i);
        dlt_redis_kill(&nodes.servers[i]);
        cr_assert(dlt_redis_again(&nodes.servers[i]), "%s", nodes.servers[i].why);
        cr_expect_neq(dlock_trylock(rival, &dlt_err), DLOCK_OK);
        cr_expect_eq(dlock_state(lock), DLOCK_STATE_HELD);
    }
    cr_assert(dlt_nodes_hold_soon(&nodes, "x", 5, 4 * DLT_TTL_MS));
    OK(dlock_unlock(lock, &dlt_err));
    OK(dlock_timedlock(rival, 5000, &dlt_err));
    OK(dlock_unlock(rival, &dlt_err));
    dlock_free(lock);
    dlock_free(rival);
    dlock_client_close(client);
    dlock_client_close(rivals);
}

/* On all nodes, also on those that were not connected yet. */
static void hold_all(struct dlock_handle *lock)
{
    for (int i = 0; i < 50 && dlt_nodes_holding(&nodes, "x") < 5; i++) {
        OK(dlock_renew(lock, 0, &dlt_err));
        dlt_sleep_ms(50);
    }
    cr_assert_eq(dlt_nodes_holding(&nodes, "x"), 5u);
}

/* REN-2, C5: a lock that a majority has lost is lost, and is not made again. */
Test(redlock_faults, REN_2_what_a_majority_forgot_is_lost_and_never_put_back)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, NULL, false);
    struct dlock_handle *lock = dlt_lock(client, "x", false);

    OK(dlock_timedlock(lock, 5000, &dlt_err));
    hold_all(lock);
    for (unsigned i = 0; i < 2; i++)
        (void)dlt_redis_ask(&nodes.servers[i], "DEL rl:{x}");
    hold_all(lock); /* a minority gets it again */
    for (unsigned i = 0; i < 3; i++)
        (void)dlt_redis_ask(&nodes.servers[i], "DEL rl:{x}");
    STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 2u);
    STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    dlock_free(lock);
    dlock_client_close(client);
}

/* C7: nobody's release or renewal touches another's lock, whatever became of its own. */
Test(redlock_faults, C7_a_release_that_comes_late_leaves_the_next_holder_alone)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, NULL, false);
    struct dlock_handle *lock = dlt_lock(client, "x", false), *next = dlt_lock(client, "x", false);

    OK(dlock_timedlock(lock, 5000, &dlt_err));
    hold_all(lock);
    for (unsigned i = 0; i < 5; i++)
        (void)dlt_redis_ask(&nodes.servers[i], "DEL rl:{x}");
    OK(dlock_timedlock(next, 5000, &dlt_err));
    STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    cr_expect_geq(dlt_nodes_holding(&nodes, "x"), 3u);
    OK(dlock_renew(next, 0, &dlt_err));
    OK(dlock_unlock(next, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
}

static bool count_holder(void *arg, const struct dlock_holder *info)
{
    unsigned *count = arg;

    cr_expect_eq(info->mode, DLOCK_EXCLUSIVE);
    (*count)++;
    return 0;
}

/* What a minority holds is nobody's lock: inspect does not show it, and it is in nobody's way. */
Test(redlock_faults, TRY_1_a_minority_is_no_holder)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "node_timeout=2s", false);
    struct dlock_handle *lock = dlt_lock(client, "x", false);
    unsigned holders = 0;

    OK(dlock_timedlock(lock, 5000, &dlt_err));
    hold_all(lock); /* each node has a connection: a silent node may hold the name */
    OK(dlock_unlock(lock, &dlt_err));
    for (unsigned i = 0; i < 2; i++)
        cr_assert_str_eq(dlt_redis_ask(&nodes.servers[i], "SET rl:{x} foreign PX 60000"), "OK");
    OK(dlock_client_inspect(client, "x", 1, count_holder, &holders, &dlt_err));
    cr_expect_eq(holders, 0u);
    OK(dlock_trylock(lock, &dlt_err));
    OK(dlock_client_inspect(client, "x", 1, count_holder, &holders, &dlt_err));
    cr_expect_eq(holders, 1u);
    OK(dlock_unlock(lock, &dlt_err));
    (void)dlt_redis_ask(&nodes.servers[2], "SET rl:{x} foreign PX 60000");
    STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    cr_expect_eq(dlt_lines_with("busy") & 7u, 7u, "%s", dlt_err.nodes[0].message);
    dlock_free(lock);
    dlock_client_close(client);
}
