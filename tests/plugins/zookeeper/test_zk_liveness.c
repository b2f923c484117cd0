/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/liveness.c */
/* What proves that the leader has heard of a session, and what does not. */
#include "liveness.h"

#include <criterion/criterion.h>

#define TICK 1000

static struct zk_liveness liveness;

static void set_up(void)
{
    zk_liveness_init(&liveness, TICK);
}

TestSuite(liveness, .init = set_up);

static void read_answered(int64_t sent, int64_t answered)
{
    zk_liveness_answer(&liveness, sent, answered, ZK_LIVENESS_SERVER);
}

static void sync_answered(int64_t sent, int64_t answered)
{
    zk_liveness_answer(&liveness, sent, answered, ZK_LIVENESS_LEADER);
}

static void changed(int64_t sent, int64_t answered)
{
    zk_liveness_answer(&liveness, sent, answered, ZK_LIVENESS_MAJORITY);
}

static void connected(int64_t begun)
{
    zk_liveness_session(&liveness, begun, begun + 5);
}

static void want(int64_t proven)
{
    cr_assert_eq(liveness.proven_ns, proven, "want %ld, have %ld", (long)proven,
                 (long)liveness.proven_ns);
}

Test(liveness, nothing_is_proven_at_first)
{
    want(0);
}

Test(liveness, a_session_that_is_made)
{
    connected(5000);
    want(5000);
}

/* A leader that was stopped, and replaced, takes the session back until it knows: it counts from
 * then on, and the leader of the others from its election. */
Test(liveness, a_session_that_is_moved_is_not_proven_by_that)
{
    connected(5000);
    connected(9000);
    want(5000);
    sync_answered(9005 + TICK - 1, 9005 + TICK + 10);
    want(5000);
    sync_answered(9005 + TICK, 9005 + TICK + 10);
    want(9000);
}

/* A leader that was replaced changes nothing. */
Test(liveness, a_change_proves_the_connection_that_it_was_sent_on)
{
    connected(5000);
    connected(9000);
    changed(9010, 9020);
    want(9000);
    connected(9500);
    read_answered(9510, 9520);
    want(9000);
    connected(9700);
    changed(9710, 9720);
    want(9700);
}

Test(liveness, a_change_proves_no_other_request)
{
    connected(5000);
    changed(6000, 6010);
    changed(6500, 6510);
    want(5000);
    changed(6010 + TICK, 7020);
    want(6000);
}

Test(liveness, a_connection_that_began_before_what_is_proven_takes_nothing_back)
{
    connected(5000);
    connected(4000);
    want(5000);
}

Test(liveness, an_answer_alone_proves_nothing)
{
    connected(5000);
    sync_answered(6000, 6010);
    want(5000);
    sync_answered(6100, 6110);
    want(5000);
}

Test(liveness, a_tick_and_the_leader_prove_the_request_before)
{
    connected(5000);
    read_answered(6000, 6010);
    sync_answered(6010 + TICK, 7050);
    want(6000);
}

Test(liveness, less_than_a_tick_proves_nothing)
{
    connected(5000);
    read_answered(6000, 6010);
    sync_answered(6010 + TICK - 1, 7050);
    want(5000);
}

Test(liveness, the_tick_counts_from_the_answer_not_from_the_request)
{
    connected(5000);
    read_answered(6000, 6900);
    sync_answered(6000 + TICK, 7100);
    want(5000);
    sync_answered(6900 + TICK, 8000);
    want(6000);
}

Test(liveness, answers_of_a_follower_prove_nothing)
{
    connected(5000);
    for (int64_t at = 6000; at < 20000; at += 100)
        read_answered(at, at + 1);
    want(5000);
}

Test(liveness, the_latest_request_that_is_old_enough_counts)
{
    connected(1000);
    read_answered(2000, 2010);
    read_answered(2500, 2510);
    read_answered(3000, 3010);
    read_answered(3500, 3510);
    sync_answered(4020, 4030);
    want(3000);
    sync_answered(5100, 5110); /* by the sync before */
    want(4020);
}

Test(liveness, requests_through_another_server_prove_nothing)
{
    connected(5000);
    read_answered(6000, 6010);
    connected(6500);
    want(5000);
    sync_answered(8000, 8010);
    want(6500);
    sync_answered(8010 + TICK, 9020);
    want(8000);
}

Test(liveness, a_request_before_the_move_proves_nothing_whenever_the_connection_began)
{
    connected(5000);
    read_answered(6000, 6010);
    connected(5500);
    sync_answered(8000, 8010);
    want(5500);
}

Test(liveness, a_stream_of_requests_is_followed_closely)
{
    connected(1000);
    for (int64_t at = 2000; at < 100000; at += 10)
        sync_answered(at, at + 5);
    /* The ring keeps requests a quarter of a tick apart. */
    cr_assert_geq(liveness.proven_ns, 99990 - TICK - TICK / 4 - 10);
    cr_assert_leq(liveness.proven_ns, 99990 - TICK);
}

Test(liveness, the_ring_keeps_the_latest_requests)
{
    connected(1000);
    for (int64_t at = 2000; at < 30000; at += TICK / 4)
        read_answered(at, at + 1);
    cr_assert_eq(liveness.count, ZK_LIVENESS_MOST);
    sync_answered(30000, 30001);
    cr_assert_geq(liveness.proven_ns, 30000 - TICK - TICK / 4 - 1);
    cr_assert_leq(liveness.proven_ns, 30000 - TICK);
}

Test(liveness, a_slow_leader_proves_what_was_before_the_request)
{
    connected(1000);
    read_answered(2000, 2010);
    read_answered(3000, 3010);
    sync_answered(4015, 90000);
    want(3000);
}

Test(liveness, a_lease_is_never_older_than_two_ticks_with_a_sync_each_half_tick)
{
    connected(1000);
    for (int64_t at = 1000; at < 50000; at += TICK / 2) {
        sync_answered(at, at + 20);
        cr_assert_leq(at - liveness.proven_ns, 2 * TICK, "at %ld", (long)at);
    }
}

Test(liveness, a_new_session_knows_nothing_of_the_one_before)
{
    connected(5000);
    read_answered(6000, 6010);
    zk_liveness_init(&liveness, TICK);
    sync_answered(9000, 9010);
    want(0);
}
