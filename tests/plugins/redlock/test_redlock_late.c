/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/release.c plugins/redlock/round.c plugins/redlock/session.c */
/* Tests: plugins/redlock/client.c */
/*
 * What do messages do that come late, or not at all? Real servers behind proxies (failures T55 to
 * T57; C1, C3, C4, C8).
 */
#include "../../kit/drop.h"
#include "redlock_kit.h"
#include "ruler.h"

#include <stdlib.h>
#include <string.h>

static struct dlt_nodes nodes;

static void set_up(void)
{
    dlt_nodes_start(&nodes, 3, true);
}

static void tear_down(void)
{
    dlt_nodes_stop(&nodes);
}

TestSuite(redlock_late, .init = set_up, .fini = tear_down, .timeout = 100);

static void tell(unsigned node, const char *line)
{
    cr_assert(dlt_proxy_tell(&nodes.proxies[node], "%s", line), "%s: %s", line,
              nodes.proxies[node].answer);
}

/* C8: a network that swallows everything. */
Test(redlock_late, C4_black_holes)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "op_timeout=2s", false);
    struct dlock_handle *lock = dlt_lock(client, "x", false);
    int64_t start_ms = 0;

    tell(1, "blackhole both");
    for (int i = 0; i < 20; i++) {
        OK(dlock_timedlock(lock, 5000, &dlt_err));
        OK(dlock_unlock(lock, &dlt_err));
    }
    tell(2, "blackhole both");
    start_ms = dlt_now_ms();
    /* One of the two was behind and has not been asked: the other one alone is no majority. */
    STATUS(dlock_trylock(lock, &dlt_err), DLOCK_NO_QUORUM);
    cr_expect(dlt_took_within(dlt_now_ms() - start_ms, 20000), "%s", dlt_within_text());
    cr_expect_eq(dlt_err.node_count, 3u);
    tell(1, "pass");
    tell(2, "pass");
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, DLT_TTL_MS + 1000));
    OK(dlock_timedlock(lock, 10000, &dlt_err));
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

/* A node that answers after its time has no vote, and what it granted is undone. As it says so
 * itself, the answer is definite, but for a round that is cut short by the deadline. */
Test(redlock_late, TRY_4_answers_after_the_time_of_a_node)
{
    struct dlock_client *client =
        dlt_nodes_client(&nodes, "node_timeout=100ms&op_timeout=3s", false);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 60000,
                                    .renew = DLOCK_OFF};
    struct dlock_handle *lock = NULL;
    enum dlock_status status = DLOCK_OK;

    OK(dlock_new(client, "x", 1, &options, &lock, &dlt_err));
    tell(0, "delay s2c 300");
    tell(1, "delay s2c 300");
    status = dlock_trylock(lock, &dlt_err);
    cr_expect(status == DLOCK_NO_QUORUM || status == DLOCK_UNKNOWN, "%s",
              dlock_status_name((int)status));
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, 10000), "long before the ttl");
    tell(0, "pass");
    tell(1, "pass");
    OK(dlock_timedlock(lock, 5000, &dlt_err));
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

/* A node that did not know the script, and says so after its time: it is not asked again, as what
 * came of that would come after the release. */
Test(redlock_late, TRY_3_nothing_is_sent_again_once_the_answer_is_given)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "op_timeout=3s&ttl=60s", false);
    struct dlock_client *other = dlt_nodes_client(&nodes, "ttl=60s", true);
    struct dlock_handle *lock = NULL, *next = dlt_lock(other, "x", false);
    enum dlock_status status = DLOCK_OK;

    OK(dlock_new(client, "x", 1, NULL, &lock, &dlt_err));
    OK(dlock_timedlock(lock, 5000, &dlt_err)); /* that takes no script, and the release does */
    OK(dlock_unlock(lock, &dlt_err));
    (void)dlt_redis_ask(&nodes.servers[2], "SET rl:{x} foreign PX 60000");
    for (unsigned i = 0; i < 3; i++)
        tell(i, "delay s2c 200");
    status = dlock_tryrdlock(lock, &dlt_err);
    cr_expect(status == DLOCK_BUSY || status == DLOCK_NO_QUORUM || status == DLOCK_UNKNOWN, "%s",
              dlock_status_name((int)status));
    for (unsigned i = 0; i < 3; i++)
        tell(i, "pass");
    dlt_sleep_ms(1000); /* whatever is under way has arrived */
    for (unsigned i = 0; i < 3; i++)
        cr_expect_str_eq(dlt_redis_ask(&nodes.servers[i], "EXISTS rl:{x}:r"), "0", "node %u", i);
    STATUS(dlock_trylock(next, &dlt_err), DLOCK_OK);
    OK(dlock_unlock(next, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* C3: a majority that grants, but so late that the lease is over. */
Test(redlock_late, C3_answers_after_the_ttl)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "node_timeout=5s&op_timeout=5s", false);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 300,
                                    .op_timeout_ms = 5000,
                                    .renew = DLOCK_OFF};
    struct dlock_handle *lock = NULL;

    OK(dlock_new(client, "x", 1, &options, &lock, &dlt_err));
    for (unsigned i = 0; i < 3; i++)
        tell(i, "delay s2c 600");
    STATUS(dlock_trylock(lock, &dlt_err), DLOCK_TIMEOUT);
    cr_expect_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 0u);
    dlock_free(lock);
    dlock_client_close(client);
}

/* The view of one client is cut off from a majority: its lock ends with its validity, the other
 * gets it not before, and what the first sent meanwhile does not hurt the second. */
Test(redlock_late, C1_two_views_of_a_partition)
{
    struct dlock_client *cut = dlt_nodes_client(&nodes, "op_timeout=500ms", false);
    struct dlock_client *other = dlt_nodes_client(&nodes, NULL, true);
    struct dlock_handle *lock = dlt_lock(cut, "x", true), *next = dlt_lock(other, "x", false);
    int64_t remaining_ms = 0, start_ms = 0;

    OK(dlock_timedlock(lock, 5000, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "x", lock));
    tell(0, "blackhole both");
    tell(1, "blackhole both");
    start_ms = dlt_now_ms();
    remaining_ms = dlock_remaining_ms(lock);
    STATUS(dlock_trylock(next, &dlt_err), DLOCK_BUSY);
    OK(dlock_timedlock(next, 20000, &dlt_err));
    cr_expect_neq(dlock_state(lock), DLOCK_STATE_HELD);
    cr_expect_neq(dlock_state(lock), DLOCK_STATE_DOUBTFUL);
    cr_expect_geq(dlt_now_ms() - start_ms, remaining_ms - 5);
    tell(0, "pass");
    tell(1, "pass");
    dlt_drop(dlock_unlock(lock, &dlt_err));
    dlt_sleep_ms(200);
    OK(dlock_renew(next, 0, &dlt_err));
    OK(dlock_unlock(next, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(cut);
    dlock_client_close(other);
}

/* The request that a node got late, of an attempt that is over: by its own connection it is
 * followed by the release. */
Test(redlock_late, C7_a_late_request_is_followed_by_its_release)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, NULL, false);
    struct dlock_handle *lock = dlt_lock(client, "x", false), *next = dlt_lock(client, "y", false);

    tell(1, "blackhole c2s");
    OK(dlock_trylock(lock, &dlt_err));
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 2u);
    OK(dlock_unlock(lock, &dlt_err));
    tell(1, "pass");
    dlt_sleep_ms(300);
    OK(dlock_trylock(next, &dlt_err)); /* takes what has arrived */
    OK(dlock_unlock(next, &dlt_err));
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, 1000));
    dlock_free(next);
    dlock_free(lock);
    dlock_client_close(client);
}

/* ... and when the lock was ended by another connection before the node got it, nobody but the
 * first one can know: it gives the lock back when it is used again, for whatever. */
Test(redlock_late, C4_a_late_grant_is_undone_before_the_next_use)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, NULL, false);
    struct dlock_client *other = dlt_nodes_client(&nodes, NULL, true);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 60000,
                                    .renew = DLOCK_OFF};
    struct dlock_handle *lock = NULL, *taker = NULL, *next = dlt_lock(client, "y", false);
    char token[DLOCK_TOKEN_CHARS];

    OK(dlock_new(client, "x", 1, &options, &lock, &dlt_err));
    OK(dlock_new(other, "x", 1, &options, &taker, &dlt_err));
    tell(1, "hold c2s +1 match=NX");
    OK(dlock_trylock(lock, &dlt_err));
    (void)dlock_token(lock, token, sizeof token);
    for (unsigned i = 0; i < 3; i++) /* somebody breaks it */
        (void)dlt_redis_ask(&nodes.servers[i], "DEL rl:{x}");
    tell(1, "await c2s.held=1 2000");
    STATUS(dlock_client_break(other, "x", 1, token, &dlt_err), DLOCK_NOT_HELD);
    tell(1, "deliver");
    cr_assert(dlt_nodes_hold_soon(&nodes, "x", 1, 2000), "the late request is executed");
    STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 1u, "its ttl is long");
    OK(dlock_timedlock(next, 5000, &dlt_err));
    OK(dlock_unlock(next, &dlt_err));
    OK(dlock_timedlock(taker, 5000, &dlt_err));
    OK(dlock_unlock(taker, &dlt_err));
    dlock_free(lock);
    dlock_free(taker);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* No node holds "x" any more, once the session has been used for something else. */
static void expect_given_back(struct dlock_handle *next)
{
    for (int i = 0; i < 500 && dlt_nodes_holding(&nodes, "x") > 0; i++) {
        OK(dlock_timedlock(next, 5000, &dlt_err));
        OK(dlock_unlock(next, &dlt_err));
        dlt_sleep_ms(50);
    }
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 0u);
}

/* A node whose connection has ended is told of a release once there is one again, by whatever the
 * session is used for next: its part of the lock does not stay for a ttl. */
Test(redlock_late, UNL_1_a_node_that_was_away_is_told_later)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "ttl=60s", false);
    struct dlock_handle *lock = NULL, *next = dlt_lock(client, "y", false);

    OK(dlock_new(client, "x", 1, NULL, &lock, &dlt_err));
    OK(dlock_trylock(lock, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "x", lock));
    tell(1, "accept refuse");
    tell(1, "kill rst");
    dlt_sleep_ms(100);
    OK(dlock_unlock(lock, &dlt_err));
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 1u);
    tell(1, "accept on");
    expect_given_back(next);
    dlock_free(next);
    dlock_free(lock);
    dlock_client_close(client);
}

/* ... also if the connection ends while the request is under way. */
Test(redlock_late, TRY_4_a_grant_whose_answer_is_lost_is_undone_later)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "ttl=60s&op_timeout=1s", false);
    struct dlock_handle *lock = NULL, *next = dlt_lock(client, "y", false);

    OK(dlock_new(client, "x", 1, NULL, &lock, &dlt_err));
    OK(dlock_timedlock(next, 5000, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "y", next)); /* all are connected */
    OK(dlock_unlock(next, &dlt_err));
    tell(1, "blackhole s2c");
    OK(dlock_trylock(lock, &dlt_err));
    cr_assert(dlt_nodes_hold_soon(&nodes, "x", 3, 5000));
    tell(1, "blackhole c2s");
    OK(dlock_unlock(lock, &dlt_err));
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 1u);
    tell(1, "kill rst");
    tell(1, "pass");
    expect_given_back(next);
    dlock_free(next);
    dlock_free(lock);
    dlock_client_close(client);
}

/* ... and by another session, as core closes one that reached no majority; as long as the client
 * has a session or a lock. */
Test(redlock_late, UNL_1_what_a_node_has_to_be_told_survives_the_session)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "ttl=60s&op_timeout=1s", false);
    struct dlock_handle *lock = NULL, *next = dlt_lock(client, "y", false);
    struct dlock_handle *kept = NULL;

    OK(dlock_new(client, "x", 1, NULL, &lock, &dlt_err));
    OK(dlock_new(client, "z", 1, NULL, &kept, &dlt_err));
    OK(dlock_trylock(kept, &dlt_err));
    OK(dlock_trylock(lock, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "x", lock));
    tell(1, "accept refuse");
    tell(1, "kill rst");
    dlt_sleep_ms(100);
    OK(dlock_unlock(lock, &dlt_err));
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 1u);
    tell(0, "accept refuse");
    tell(0, "kill rst");
    cr_expect_neq(dlock_trylock(next, &dlt_err), DLOCK_OK);
    tell(0, "accept on");
    tell(1, "accept on");
    expect_given_back(next);
    dlock_free(kept);
    dlock_free(next);
    dlock_free(lock);
    dlock_client_close(client);
}

/* An unlock that others decide reaches a node that does not know its script, and answers late, if
 * nobody uses the session afterwards, too. */
Test(redlock_late, UNL_1_where_the_script_of_an_unlock_is_not_known)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "ttl=60s", false);
    struct dlock_handle *lock = NULL;

    OK(dlock_new(client, "x", 1, NULL, &lock, &dlt_err));
    OK(dlock_trylock(lock, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "x", lock));
    tell(1, "delay s2c 300");
    OK(dlock_unlock(lock, &dlt_err));
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, 5000));
    tell(1, "pass");
    dlock_free(lock);
    dlock_client_close(client);
}

/* The release of a request in vain does its work, if its script is not known there, too, and if
 * nobody uses the session afterwards. */
Test(redlock_late, TRY_3_an_undo_where_its_script_is_not_known)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "ttl=60s", false);
    struct dlock_handle *lock = NULL;

    OK(dlock_new(client, "x", 1, NULL, &lock, &dlt_err));
    for (unsigned i = 1; i < 3; i++)
        (void)dlt_redis_ask(&nodes.servers[i], "SET rl:{x} foreign PX 60000");
    STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 0, 5000));
    dlock_free(lock);
    dlock_client_close(client);
}

/* ---- releases that a node refuses ---- */

static void allow(unsigned node, const char *rule)
{
    const char *answer = dlt_redis_ask(&nodes.servers[node], "ACL SETUSER default %s", rule);

    cr_assert_str_eq(answer, "OK", "%s", answer);
}

/* A node that refuses an unlock still has its part of the lock: it is told again. */
Test(redlock_late, UNL_1_a_node_that_refused_an_unlock_is_told_later)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "ttl=60s", false);
    struct dlock_handle *lock = NULL, *next = dlt_lock(client, "y", false);

    OK(dlock_new(client, "x", 1, NULL, &lock, &dlt_err));
    OK(dlock_trylock(lock, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "x", lock));
    allow(1, "-@scripting");
    OK(dlock_unlock(lock, &dlt_err));
    cr_assert(dlt_nodes_hold_soon(&nodes, "x", 1, 5000));
    allow(1, "+@scripting");
    expect_given_back(next);
    dlock_free(next);
    dlock_free(lock);
    dlock_client_close(client);
}

/* Calls of DEL that it refused, which all are of a script that releases. */
static long refusals(unsigned node)
{
    const char *stats = dlt_redis_ask(&nodes.servers[node], "INFO commandstats");
    const char *at = strstr(stats, "cmdstat_del:");

    at = at != NULL ? strstr(at, "rejected_calls=") : NULL;
    return at != NULL ? strtol(at + strlen("rejected_calls="), NULL, 10) : 0;
}

/* ... once more now and then, and not each time that the session is used. */
Test(redlock_late, UNL_1_a_node_that_goes_on_refusing_is_not_flooded)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "ttl=60s", false);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 60000,
                                    .renew = DLOCK_OFF};
    struct dlock_handle *lock = NULL, *kept = NULL;
    int64_t start_ms = 0, took_ms = 0;
    long once_a_second = 0;
    int uses = 0;

    OK(dlock_new(client, "x", 1, NULL, &lock, &dlt_err));
    OK(dlock_new(client, "y", 1, &options, &kept, &dlt_err));
    OK(dlock_trylock(kept, &dlt_err));
    OK(dlock_trylock(lock, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "x", lock));
    allow(1, "-del");
    start_ms = dlt_now_ms();
    OK(dlock_unlock(lock, &dlt_err));
    while (uses < 100 || refusals(1) < 3) {
        OK(dlock_renew(kept, 0, &dlt_err));
        uses++;
        dlt_sleep_ms(10);
        cr_assert(dlt_took_within(dlt_now_ms() - start_ms, 30000), "%s", dlt_within_text());
    }
    took_ms = dlt_now_ms() - start_ms;
    once_a_second = 2 + (long)(took_ms / 1000);
    cr_expect_leq(refusals(1), once_a_second, "%ld in %lld ms, used %d times", refusals(1),
                  (long long)took_ms, uses);
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 1u);
    allow(1, "+del");
    OK(dlock_unlock(kept, &dlt_err));
    expect_given_back(kept);
    dlock_free(kept);
    dlock_free(lock);
    dlock_client_close(client);
}
