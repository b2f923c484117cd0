/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/guard/view.c */
/* FO-12: does the failover guard find a slot for its record, and since when a slot is where it is?
 */
#include "redis/guard/view.h"
#include "redis/link/slot.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define A "f648c73dd149dea5aad68fe4e99e90cd8030e348"
#define B "0648c73dd149dea5aad68fe4e99e90cd8030e348"
#define C "1648c73dd149dea5aad68fe4e99e90cd8030e348"

static unsigned mark_slot(const char *nodes)
{
    char tag[REDIS_TAG_SIZE] = "";
    int64_t replicas = -1;

    cr_assert(redis_view_tag_choose(nodes, tag, &replicas), "%s", nodes);
    cr_assert_eq(tag[0], '{');
    cr_assert_eq(tag[strlen(tag) - 1], '}');
    return redis_slot(tag, strlen(tag));
}

static bool is_refused(const char *nodes)
{
    char tag[REDIS_TAG_SIZE] = "";
    int64_t replicas = -1;

    return !redis_view_tag_choose(nodes, tag, &replicas);
}

Test(mark, is_in_a_slot_of_the_server_that_answered)
{
    const char *nodes = B " 10.0.0.2:1@2 master - 0 7 2 connected 0-99\n" A
                          " 10.0.0.1:1@2,name myself,master - 0 8 1 connected 100-149 7000\n";

    cr_assert(mark_slot(nodes) == 7000 || (mark_slot(nodes) >= 100 && mark_slot(nodes) < 150));
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot += 97) {
        char one[200];

        (void)snprintf(one, sizeof one, A " :1@2 myself,master - 0 0 0 connected %u", slot);
        cr_assert_eq(mark_slot(one), slot);
    }
}

/* Another slot that comes or goes does not move the record, as a rule. */
Test(mark, stays_if_other_slots_move)
{
    unsigned all = mark_slot(A " :1@2 myself,master - 0 0 0 connected 0-5460\n");
    unsigned less = mark_slot(A " :1@2 myself,master - 0 0 0 connected 1000-5460\n");
    unsigned more = mark_slot(A " :1@2 myself,master - 0 0 0 connected 0-5460 16383\n");

    cr_assert_eq(all, less);
    cr_assert_eq(all, more);
}

Test(mark, is_in_no_slot_that_moves)
{
    unsigned slot = mark_slot(A " :1@2 myself,master - 0 0 0 connected 0-5460\n");
    char nodes[200];

    (void)snprintf(nodes, sizeof nodes,
                   A " :1@2 myself,master - 0 0 0 connected 0-5460 [%u->-" B "]\n", slot);
    cr_assert_neq(mark_slot(nodes), slot);
    cr_assert(is_refused(A " :1@2 myself,master - 0 0 0 connected 5 [5->-" B "]\n"));
    cr_assert(is_refused(A " :1@2 myself,master - 0 0 0 connected [5-<-" B "]\n"));
}

Test(mark, counts_replicas_that_are_down)
{
    char tag[REDIS_TAG_SIZE] = "";
    int64_t replicas = -1;

    cr_assert(redis_view_tag_choose(A " :1@2 myself,master - 0 0 0 connected 0-5\n" B
                                      " :1@2 slave,fail " A " 0 0 0 disconnected\n" C
                                      " :1@2 slave " B " 0 0 0 connected\n",
                                    tag, &replicas));
    cr_assert_eq(replicas, 1);
}

Test(mark, refuses_nonsense)
{
    cr_assert(is_refused(""));
    cr_assert(is_refused("\n"));
    cr_assert(is_refused(A " :1@2 master - 0 0 0 connected 0-5\n"));
    cr_assert(is_refused(A " :1@2 myself,master - 0 0 0"));
    cr_assert(is_refused(A " :1@2 myself,slave " B " 0 0 0 connected\n"));
    cr_assert(is_refused(A " :1@2 myself,master - 0 0 0 connected 99999"));
}

Test(owned, says_since_when_a_slot_is_there)
{
    struct redis_slots owned = {.ranges = NULL};

    cr_assert(redis_view_slots_read(&owned, " 0-9@0 10-10@1764109000000000 12-16383@5"));
    cr_assert_eq(owned.count, 3);
    cr_assert_eq(redis_view_slots_since(&owned, 0), 0);
    cr_assert_eq(redis_view_slots_since(&owned, 9), 0);
    cr_assert_eq(redis_view_slots_since(&owned, 10), INT64_C(1764109000000000));
    cr_assert_eq(redis_view_slots_since(&owned, 11), -1);
    cr_assert_eq(redis_view_slots_since(&owned, 12), 5);
    cr_assert_eq(redis_view_slots_since(&owned, 16383), 5);
    cr_assert(redis_view_slots_read(&owned, ""));
    cr_assert_eq(redis_view_slots_since(&owned, 0), -1);
    redis_view_slots_free(&owned);
}

Test(owned, refuses_nonsense)
{
    static const char *const bad[] = {
        "0-9@0",        " 0-9@",   " 0-16384@0", " 9-0@0",          " 0-9@0 9-10@0",
        " 0-9@0 20-30", " 0-9@-1", " -1-9@0",    " 0-9@0x",         "@",
        " 0-9@@0",      " 5@0",    " 0-9@0 ",    " 0-9@0  11-12@0", " 0-9@99999999999999999999"};
    struct redis_slots owned = {.ranges = NULL};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert(redis_view_slots_read(&owned, " 3-4@0"));
        cr_assert_not(redis_view_slots_read(&owned, bad[i]), "'%s'", bad[i]);
        cr_assert_eq(redis_view_slots_since(&owned, 3), -1);
    }
}
