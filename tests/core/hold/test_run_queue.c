/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/run_queue.c */
/* C19: does every node that is ready run, in order, and no node twice at once? */
#include "hold/run_queue.h"

#include <criterion/criterion.h>

static struct dl_run_queue *queue;

static void set_up(void)
{
    queue = dl_run_queue_new();
    cr_assert_not_null(queue);
    for (int i = 0; i < 8; i++)
        cr_assert(dl_schedule_reserve(&queue->waiting));
}

static void tear_down(void)
{
    dl_run_queue_free(queue);
}

TestSuite(run_queue, .init = set_up, .fini = tear_down);

Test(run_queue, first_come_first_served_but_for_the_urgent)
{
    struct dl_run_node a = {0}, b = {0}, urgent = {.urgent = true};

    dl_run_queue_wake_locked(queue, &a, 1);
    dl_run_queue_wake_locked(queue, &b, 2);
    dl_run_queue_wake_locked(queue, &a, 3); /* it is ready already */
    dl_run_queue_wake_locked(queue, &urgent, 4);
    cr_assert(dl_run_queue_has_work(queue, 4));
    cr_assert_eq(dl_run_queue_take_locked(queue, 5), &urgent);
    cr_assert_eq(dl_run_queue_take_locked(queue, 5), &a);
    cr_assert_eq(a.due.at_ns, 1);
    cr_assert_eq(dl_run_queue_take_locked(queue, 5), &b);
    cr_assert_null(dl_run_queue_take_locked(queue, 5));
    cr_assert_not(dl_run_queue_has_work(queue, 5));
}

Test(run_queue, a_waiting_node_is_ready_at_its_time_or_when_it_is_woken)
{
    struct dl_run_node late = {0}, early = {0}, woken = {0};
    struct dl_run_node *nodes[] = {&late, &early, &woken};
    const int64_t until_ns[] = {30, 20, INT64_MAX};

    for (int i = 0; i < 3; i++) {
        dl_run_queue_wake_locked(queue, nodes[i], 1);
        cr_assert_eq(dl_run_queue_take_locked(queue, 1), nodes[i]);
        dl_run_queue_wait_locked(queue, nodes[i], until_ns[i], 1);
    }
    cr_assert_null(dl_run_queue_take_locked(queue, 19));
    dl_run_queue_wake_locked(queue, &woken, 19);
    cr_assert_eq(dl_run_queue_take_locked(queue, 19), &woken);
    dl_run_queue_end_locked(queue, &woken);
    cr_assert_eq(dl_run_queue_take_locked(queue, 30), &early);
    cr_assert_eq(dl_run_queue_take_locked(queue, 30), &late);
}

Test(run_queue, what_happens_while_a_node_runs_is_not_lost)
{
    struct dl_run_node a = {0};

    dl_run_queue_wake_locked(queue, &a, 1);
    cr_assert_eq(dl_run_queue_take_locked(queue, 1), &a);
    dl_run_queue_wake_locked(queue, &a, 2);
    cr_assert_null(dl_run_queue_take_locked(queue, 2), "one node runs twice at once");
    dl_run_queue_wait_locked(queue, &a, INT64_MAX, 3);
    cr_assert_eq(dl_run_queue_take_locked(queue, 3), &a);
    dl_run_queue_wait_locked(queue, &a, INT64_MAX, 4);
    cr_assert_null(dl_run_queue_take_locked(queue, 5));
}

/* The first thread slept without a bound when the second thread had the node. */
Test(run_queue, the_first_thread_learns_of_a_node_that_the_second_one_lets_wait)
{
    struct dl_run_node waits = {0}, woken = {0};

    dl_run_queue_wake_locked(queue, &waits, 1);
    dl_run_queue_wake_locked(queue, &woken, 1);
    cr_assert_eq(dl_run_queue_take_locked(queue, 1), &waits);
    cr_assert_eq(dl_run_queue_take_locked(queue, 1), &woken);
    dl_run_queue_wake_locked(queue, &woken, 2);
    queue->asleep[0] = true;
    dl_run_queue_wait_locked(queue, &waits, 30, 3);
    cr_assert_not(queue->asleep[0]);
    queue->asleep[0] = true;
    dl_run_queue_wait_locked(queue, &woken, 30, 3);
    cr_assert_not(queue->asleep[0]);
}

Test(run_queue, numbers_are_given_again)
{
    struct dl_run_node nodes[40] = {{0}};

    for (int i = 0; i < 40; i++)
        cr_assert(dl_run_queue_number_locked(queue, &nodes[i]));
    for (int i = 0; i < 40; i++) {
        cr_assert_neq(nodes[i].number, 0);
        cr_assert_eq(dl_run_queue_numbered(queue, nodes[i].number), &nodes[i]);
    }
    dl_run_queue_unnumber_locked(queue, &nodes[7]);
    cr_assert_null(dl_run_queue_numbered(queue, 8));
    cr_assert_null(dl_run_queue_numbered(queue, 0));
    cr_assert_null(dl_run_queue_numbered(queue, 41));
    cr_assert(dl_run_queue_number_locked(queue, &nodes[7]));
    cr_assert_eq(nodes[7].number, 8);
}

static int roused;

static void rouse(void *arg)
{
    cr_assert_eq(arg, &roused);
    roused++;
}

Test(run_queue, the_first_thread_is_roused_where_it_sleeps)
{
    struct dl_run_node a = {0};

    queue->rouse = rouse;
    queue->rouse_arg = &roused;
    dl_run_queue_rouse_locked(queue);
    cr_assert_eq(roused, 0); /* it does not sleep */
    queue->asleep[0] = true;
    dl_run_queue_wake_locked(queue, &a, 1);
    cr_assert_eq(roused, 1);
    dl_run_queue_rouse_locked(queue);
    cr_assert_eq(roused, 1); /* nor does it any more */
}
