/* SPDX-License-Identifier: MIT */
/* Tests: cli/deadlock.c */
/* Which locks does nobody give back? */
#include "deadlock.h"

#include <criterion/criterion.h>

#define LOCKS_MOST 8

static struct deadlock_lock locks[LOCKS_MOST];
static struct deadlock_graph graph;
static size_t cycle[LOCKS_MOST * 2];

/* Locks of one holder each. */
static void locks_are(size_t count, const struct deadlock_edge *edges, size_t edge_count)
{
    for (size_t i = 0; i < count; i++)
        locks[i] = (struct deadlock_lock){.holders = 1};
    graph = (struct deadlock_graph){
        .locks = locks, .lock_count = count, .edges = edges, .edge_count = edge_count};
}

#define LOCKS_ARE(count, edges) locks_are(count, edges, sizeof(edges) / sizeof(edges)[0])

/* The locks of the cycle from `from` on, as digits; "": there is none. */
static const char *cycle_from(size_t from)
{
    static char text[LOCKS_MOST + 1];
    size_t length = 0;

    deadlock_find(&graph);
    length = deadlock_cycle(&graph, from, cycle);
    for (size_t i = 0; i < length; i++)
        text[i] = (char)('0' + graph.edges[cycle[i]].lock);
    text[length] = '\0';
    return text;
}

Test(deadlock, a_chain_is_none)
{
    const struct deadlock_edge edges[] = {{0, 0, 1, 0}, {1, 0, 2, 0}};

    LOCKS_ARE(3, edges);
    for (size_t i = 0; i < 3; i++)
        cr_assert_str_eq(cycle_from(i), "");
}

Test(deadlock, a_cycle_of_three)
{
    const struct deadlock_edge edges[] = {{0, 0, 1, 0}, {1, 0, 2, 0}, {2, 0, 0, 0}};

    LOCKS_ARE(4, edges);
    cr_assert_str_eq(cycle_from(0), "012");
    cr_assert_str_eq(cycle_from(1), "120");
    cr_assert_str_eq(cycle_from(3), "", "a lock beside it");
}

Test(deadlock, a_lock_that_leads_to_a_cycle)
{
    const struct deadlock_edge edges[] = {{0, 0, 1, 0}, {1, 0, 2, 0}, {2, 0, 1, 0}};

    LOCKS_ARE(3, edges);
    cr_assert_str_eq(cycle_from(0), "12");
}

Test(deadlock, a_holder_that_waits_for_what_it_holds)
{
    const struct deadlock_edge edges[] = {{0, 0, 0, 0}};

    LOCKS_ARE(1, edges);
    cr_assert_str_eq(cycle_from(0), "0");
}

/* A writer waits for all readers; one that is stuck is enough. */
Test(deadlock, one_reader_of_three_is_enough)
{
    const struct deadlock_edge edges[] = {{0, 1, 1, 0}, {1, 0, 0, 0}};

    LOCKS_ARE(2, edges);
    locks[0].holders = 3;
    cr_assert_str_eq(cycle_from(0), "01");
}

Test(deadlock, of_a_semaphore_all_holders_have_to_be_stuck)
{
    const struct deadlock_edge edges[] = {{0, 0, 1, 0}, {0, 1, 1, 0}, {1, 0, 0, 0}};

    LOCKS_ARE(2, edges);
    locks[0].holders = 3;
    locks[0].is_semaphore = true;
    cr_assert_str_eq(cycle_from(0), "", "the third holder gives its permit back");
    cr_assert_str_eq(cycle_from(1), "", "and then nobody waits for the other lock");
    locks[0].holders = 2;
    cr_assert_str_eq(cycle_from(0), "01");
}

Test(deadlock, a_holder_that_waits_for_two_locks_is_stuck_with_one)
{
    const struct deadlock_edge edges[] = {{0, 0, 1, 0}, {0, 0, 2, 0}, {2, 0, 0, 0}};

    LOCKS_ARE(3, edges);
    cr_assert_str_eq(cycle_from(0), "02");
    cr_assert_str_eq(cycle_from(1), "");
}
