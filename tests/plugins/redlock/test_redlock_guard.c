/* SPDX-License-Identifier: MIT */
/* Can a lock outlive the time for which a node that forgot it has no vote? Real servers (C1,
 * CRASH_SAFE). */
#include "redlock_kit.h"
#include "ruler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_MS 3000

static struct dlt_nodes nodes;

static void set_up(void)
{
    dlt_nodes_start(&nodes, 3, false);
}

static void tear_down(void)
{
    dlt_nodes_stop(&nodes);
}

TestSuite(redlock_guard, .init = set_up, .fini = tear_down, .timeout = 60);

/* What each node will keep of it. */
static void expect_kept_within_guard(void)
{
    for (unsigned i = 0; i < nodes.count; i++) {
        long left_ms = strtol(dlt_redis_ask(&nodes.servers[i], "PTTL rl:{x}"), NULL, 10);

        cr_expect_gt(left_ms, 0, "node %u", i);
        cr_expect_leq(left_ms, GUARD_MS, "node %u: %ld ms", i, left_ms);
    }
}

/* REN-1: a renewal gives what can be kept, and says what it gave; so does one of a token, and what
 * is put back. */
Test(redlock_guard, CRASH_SAFE_no_renewal_outlives_the_guard)
{
    struct dlock_client *client = NULL, *other = NULL;
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 60000,
                                    .renew = DLOCK_OFF};
    struct dlock_handle *lock = NULL, *adopter = NULL;
    char token[DLOCK_TOKEN_CHARS];

    dlt_sleep_ms(GUARD_MS + 1500);
    client = dlt_nodes_client(&nodes, "restart_guard=3s&ttl=2s", false);
    other = dlt_nodes_client(&nodes, "restart_guard=3s&ttl=2s", false);
    lock = dlt_lock(client, "x", false);
    OK(dlock_timedlock(lock, 10000, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "x", lock));
    (void)dlt_redis_ask(&nodes.servers[2], "DEL rl:{x}");
    OK(dlock_renew(lock, 60000, &dlt_err));
    cr_expect_leq(dlock_remaining_ms(lock), GUARD_MS);
    cr_assert(dlt_nodes_hold_soon(&nodes, "x", 3, 1000));
    expect_kept_within_guard();

    (void)dlock_token(lock, token, sizeof token);
    OK(dlock_new(other, "x", 1, &options, &adopter, &dlt_err));
    OK(dlock_adopt(adopter, token, &dlt_err));
    cr_expect_leq(dlock_remaining_ms(adopter), GUARD_MS);
    expect_kept_within_guard();
    OK(dlock_unlock(adopter, &dlt_err));
    dlock_free(adopter);
    dlock_free(lock);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Whether the nodes that gave no vote say that they were just started. A node whose guard is over
 * says "granted"; one whose answer was late, "not ... in time". */
static bool nodes_are_guarded(void)
{
    bool guarded = false;

    for (unsigned i = 0; i < nodes.count; i++) {
        const char *why = dlt_err.nodes[i].message;

        guarded |= strstr(why, "restart_guard") != NULL;
        cr_expect(strstr(why, "restart_guard") != NULL || strstr(why, "in time") != NULL ||
                      strcmp(why, "granted") == 0,
                  "node %u: %s", i, why);
    }
    return guarded;
}

static void adopted_after_guard(struct dlock_handle *adopter, const char *token)
{
    enum dlock_status status = DLOCK_UNAVAILABLE;
    unsigned refused = 0, guarded = 0;

    for (; status == DLOCK_UNAVAILABLE && refused < 400; refused++) {
        status = dlock_adopt(adopter, token, &dlt_err);
        guarded += status == DLOCK_UNAVAILABLE && nodes_are_guarded();
        dlt_sleep_ms(25);
    }
    OK(status);
    cr_expect_gt(guarded, 1u, "the nodes were just started");
}

/* ... also where a client without a guard took it for longer: what is left at the nodes is not
 * relied on. And nodes that may have forgotten an unlock give no token a lease (REN-6). */
Test(redlock_guard, CRASH_SAFE_no_adoption_relies_on_more_than_the_guard)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "restart_guard=0&ttl=60s", false);
    struct dlock_client *other = dlt_nodes_client(&nodes, "restart_guard=3s&ttl=2s", false);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 60000,
                                    .renew = DLOCK_OFF};
    struct dlock_handle *lock = NULL, *adopter = NULL;
    char token[DLOCK_TOKEN_CHARS];

    OK(dlock_new(client, "x", 1, &options, &lock, &dlt_err));
    OK(dlock_timedlock(lock, 10000, &dlt_err));
    (void)dlock_token(lock, token, sizeof token);
    OK(dlock_new(other, "x", 1, &options, &adopter, &dlt_err));
    adopted_after_guard(adopter, token);
    cr_expect_leq(dlock_remaining_ms(adopter), GUARD_MS);
    OK(dlock_unlock(adopter, &dlt_err));
    dlock_free(adopter);
    dlock_free(lock);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* The guard that is used if nobody says otherwise: a majority that was just started grants nothing,
 * and says for how long. */
Test(redlock_guard, CRASH_SAFE_the_default_guard)
{
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    char uri[300];

    (void)snprintf(uri, sizeof uri, "redlock://%s,%s,%s", nodes.servers[0].address,
                   nodes.servers[1].address, nodes.servers[2].address);
    OK(dlock_client_open(uri, NULL, &client, &dlt_err));
    cr_expect(dlock_client_caps(client) & DLOCK_CAP_CRASH_SAFE);
    lock = dlt_lock(client, "x", false);
    STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    for (unsigned i = 0; i < 3; i++) {
        static const char words[] = "restart_guard is 30 s; no vote for ";
        const char *line = strstr(dlt_err.nodes[i].message, words);
        long left_s = 0;

        cr_assert_not_null(line, "%s", dlt_err.nodes[i].message);
        left_s = strtol(line + strlen(words), NULL, 10);
        cr_expect(left_s > 5 && left_s <= 32, "%s", line);
    }
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 0u);
    dlock_free(lock);
    dlock_client_close(client);
}

#ifdef DLT_LONG
/* ... and in full: a majority forgets a lock that nobody renews, and grants it to nobody before it
 * has run out. */
Test(redlock_guard, CRASH_SAFE_the_default_guard_in_full, .timeout = 240)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 60000,
                                    .renew = DLOCK_OFF};
    struct dlock_client *client = dlt_nodes_client(&nodes, "restart_guard=60s", false);
    struct dlock_client *rivals = dlt_nodes_client(&nodes, "restart_guard=60s", false);
    struct dlock_handle *lock = NULL, *rival = NULL;
    int64_t start_ms = dlt_now_ms();

    OK(dlock_new(client, "x", 1, &options, &lock, &dlt_err));
    OK(dlock_new(rivals, "x", 1, &options, &rival, &dlt_err));
    while (dlock_trylock(lock, &dlt_err) != DLOCK_OK) {
        STATUS(dlt_err.status, DLOCK_BUSY);
        cr_assert(dlt_took_within(dlt_now_ms() - start_ms, 90000), "%s", dlt_within_text());
        dlt_sleep_ms(250);
    }
    cr_expect_gt(dlt_now_ms() - start_ms, 50000, "they had a vote too soon");
    cr_assert(dlt_nodes_all_hold(&nodes, "x", lock));
    for (unsigned i = 0; i < 2; i++) {
        dlt_redis_kill(&nodes.servers[i]);
        cr_assert(dlt_redis_again(&nodes.servers[i]), "%s", nodes.servers[i].why);
    }
    start_ms = dlt_now_ms();
    while (dlock_trylock(rival, &dlt_err) != DLOCK_OK) {
        cr_assert(dlt_took_within(dlt_now_ms() - start_ms, 90000), "%s", dlt_within_text());
        dlt_sleep_ms(250);
    }
    cr_expect_eq(dlock_remaining_ms(lock), 0, "two hold it");
    cr_expect_eq(dlock_state(lock), DLOCK_STATE_LOST);
    OK(dlock_unlock(rival, &dlt_err));
    dlock_free(lock);
    dlock_free(rival);
    dlock_client_close(client);
    dlock_client_close(rivals);
}
#endif
