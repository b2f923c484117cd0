/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/fence.c */
/* Which number is the fencing token, if the nodes' clocks and numbers differ? (C6) */
#include "fence.h"

#include <criterion/criterion.h>

#define NOW      INT64_C(1700000000000000) /* microseconds */
#define TTL_MS   1000
#define NS(us)   ((us)*INT64_C(1000))
#define APART_US 400000

static struct redlock_fence_choice choose(int64_t number_a, int64_t clock_a, int64_t number_b,
                                          int64_t clock_b, int64_t number_c, int64_t clock_c)
{
    const struct redlock_fence_vote votes[] = {
        {number_a, clock_a}, {number_b, clock_b}, {number_c, clock_c}};

    return redlock_fence_choose(votes, 3, 2, TTL_MS);
}

Test(redlock_fence, C6_a_number_that_a_majority_gave_is_the_token)
{
    struct redlock_fence_choice choice = choose(NOW, NOW, NOW, NOW, 0, 0);

    cr_expect_eq(choice.number, NOW);
    cr_expect_eq(choice.agreed, 2u);
    choice = choose(NOW, NOW, NOW, NOW, NOW + 99, NOW + 99);
    cr_expect_eq(choice.number, NOW, "the third number is greater, and not needed");
    cr_expect_eq(choice.agreed, 2u);
    cr_expect_eq(choice.behind, 0u);
}

Test(redlock_fence, C6_else_the_least_one_that_a_majority_can_be_brought_to)
{
    struct redlock_fence_choice choice = choose(NOW + 50, NOW, NOW + 99, NOW, NOW, NOW);

    cr_expect_eq(choice.number, NOW + 50);
    cr_expect_eq(choice.agreed, 1u);
    cr_expect_eq(choice.behind, 1u << 2);
}

Test(redlock_fence, C6_one_node_is_no_majority)
{
    cr_expect_eq(choose(NOW, NOW, 0, 0, 0, 0).number, 0);
}

/* The last number of the lease lies before clock + ttl of each node that counts. */
Test(redlock_fence, C6_a_number_that_the_clock_may_not_have_passed_when_the_lease_ends)
{
    const int64_t ttl_us = TTL_MS * INT64_C(1000);
    const int64_t last = NOW + ttl_us - REDLOCK_FENCE_NUMBERS;

    cr_expect_eq(choose(last, NOW, last, NOW, 0, 0).number, last);
    cr_expect_eq(choose(last + 1, NOW, last + 1, NOW, 0, 0).number, 0);
    cr_expect_eq(choose(NOW + ttl_us, NOW + ttl_us, NOW, NOW, 0, 0).number, 0);
    cr_expect_eq(choose(NOW + ttl_us, NOW + ttl_us, NOW, NOW, NOW, NOW).number, NOW,
                 "a node whose clock is far ahead does not count");
    cr_expect_eq(choose(NOW, NOW - ttl_us, NOW, NOW, NOW, NOW).agreed, 2u, "nor one far behind");
}

Test(redlock_fence, the_spread_is_that_of_the_nearest_majority)
{
    const struct redlock_fence_vote votes[] = {{1, NOW + 900}, {1, NOW}, {0, 0}, {1, NOW + 700}};

    cr_expect_eq(redlock_fence_spread_us(votes, 4, 2), 200);
    cr_expect_eq(redlock_fence_spread_us(votes, 4, 3), 900);
    cr_expect_eq(redlock_fence_spread_us(votes, 4, 4), 0, "too few voted");
}

/* Clocks that were set back are behind the numbers of before. */
Test(redlock_fence, the_numbers_of_the_nearest_majority_are_ahead_of_the_clocks)
{
    const struct redlock_fence_vote votes[] = {
        {NOW + 900, NOW}, {NOW + 100, NOW}, {0, 0}, {NOW, NOW + 700}};

    cr_expect_eq(redlock_fence_ahead_us(votes, 4, 1), 0, "the clock of one node has passed it");
    cr_expect_eq(redlock_fence_ahead_us(votes, 4, 2), 100);
    cr_expect_eq(redlock_fence_ahead_us(votes, 4, 3), 900);
    cr_expect_eq(redlock_fence_ahead_us(votes, 4, 4), 0, "too few voted");
}

static int64_t guess(struct redlock_fence_clocks *clocks, int64_t now_us)
{
    return redlock_fence_guess(clocks, 3, 2, TTL_MS, NS(now_us));
}

Test(redlock_fence, the_number_to_ask_for_is_the_latest_clock_of_the_nodes)
{
    struct redlock_fence_clocks clocks = {0};

    cr_expect_eq(guess(&clocks, 100), 0, "nothing is known");
    redlock_fence_note(&clocks, 0, NOW, NS(100));
    cr_expect_eq(guess(&clocks, 200), 0, "one node is no majority");
    redlock_fence_note(&clocks, 2, NOW + 30, NS(100));
    cr_expect_eq(guess(&clocks, 200), NOW + 130);
    redlock_fence_note(&clocks, 1, NOW + APART_US, NS(100));
    cr_expect_eq(guess(&clocks, 200), NOW + 130, "a clock far ahead of the others is not followed");
}

Test(redlock_fence, INFO_gives_the_first_estimate_and_no_later_one)
{
    struct redlock_fence_clocks clocks = {0};

    redlock_fence_first(&clocks, 0, 0, NS(100));
    redlock_fence_first(&clocks, 1, NOW, NS(100));
    cr_expect_eq(guess(&clocks, 200), 0, "a server without a clock in INFO");
    redlock_fence_first(&clocks, 0, NOW, NS(100));
    cr_expect_gt(guess(&clocks, 200), NOW + 100, "rather too great");
    cr_expect_lt(guess(&clocks, 200), NOW + 5000);
    redlock_fence_note(&clocks, 0, NOW, NS(100));
    redlock_fence_first(&clocks, 0, NOW + APART_US, NS(100));
    cr_expect_lt(guess(&clocks, 200), NOW + 5000);
}

/* One answer that was late does not move the numbers far, and they come back. */
Test(redlock_fence, a_late_answer_is_forgotten)
{
    struct redlock_fence_clocks clocks = {0};

    for (unsigned node = 0; node < 2; node++)
        redlock_fence_note(&clocks, node, NOW, NS(0));
    redlock_fence_note(&clocks, 1, NOW + 2000000, NS(0));
    cr_expect_leq(guess(&clocks, 0), NOW + 1000);
    for (int i = 0; i < 1000; i++)
        redlock_fence_note(&clocks, 1, NOW, NS(0));
    cr_expect_leq(guess(&clocks, 0), NOW + 1);
}

/* A clock that was set goes on being followed. */
Test(redlock_fence, a_clock_that_was_set_is_followed)
{
    struct redlock_fence_clocks clocks = {0};

    for (unsigned node = 0; node < 2; node++)
        redlock_fence_note(&clocks, node, NOW, NS(0));
    for (int i = 0; i < 200; i++)
        for (unsigned node = 0; node < 2; node++)
            redlock_fence_note(&clocks, node, NOW + 100000, NS(0));
    cr_expect_eq(guess(&clocks, 0), NOW + 100000);
    for (int i = 0; i < 1000; i++)
        for (unsigned node = 0; node < 2; node++)
            redlock_fence_note(&clocks, node, NOW - 3600 * INT64_C(1000000), NS(0));
    cr_expect_leq(guess(&clocks, 0), NOW - 3600 * INT64_C(1000000) + 1);
}
