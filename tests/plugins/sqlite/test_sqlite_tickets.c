/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/ticket_lock.c */
/* Is the lock taken in turn? Patience is an hour in this program, so that nothing but a wake-up
 * lets anybody in. */
#include "clock.h"
#include "ticket_kit.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>

#define WAITERS 40 /* more than a wake-up can tell apart */

static struct sqlite_ticket_pass a, b;
static _Atomic uint32_t entered;

TestSuite(tickets, .init = dlt_door_set_up, .fini = dlt_door_tear_down, .timeout = 60);

struct waiter {
    pthread_t thread;
    int rc;
    uint32_t place;
};

static void *wait_in_line(void *arg)
{
    struct sqlite_ticket_pass pass = {0};
    struct waiter *waiter = arg;

    waiter->rc = dlt_door_enter(&pass, 50000);
    waiter->place = atomic_fetch_add(&entered, 1);
    if (waiter->rc == 0)
        sqlite_ticket_lock_exit(&door->lock, &pass);
    return NULL;
}

static void waiter_start(struct waiter *waiter)
{
    uint32_t before = atomic_load(&door->lock.next);

    cr_assert_eq(pthread_create(&waiter->thread, NULL, wait_in_line, waiter), 0);
    dlt_door_wait_tickets(before + 1);
}

static void waiter_join(struct waiter *waiter, uint32_t place)
{
    cr_assert_eq(pthread_join(waiter->thread, NULL), 0);
    cr_assert_eq(waiter->rc, 0);
    cr_assert_eq(waiter->place, place);
}

/* Who takes a ticket and is not heard of. */
static void vanish(void)
{
    (void)atomic_fetch_add(&door->lock.next, 1);
}

static void assert_no_ticket(void)
{
    cr_assert_eq(door->lock.served, door->lock.next);
}

Test(tickets, a_free_one_is_entered_without)
{
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_door_enter(&a, 0), 0);
        sqlite_ticket_lock_exit(&door->lock, &a);
        cr_assert_eq(dlt_door_enter(&b, 0), 0);
        sqlite_ticket_lock_exit(&door->lock, &b);
    }
    assert_no_ticket();
}

static void order_is_kept(void)
{
    struct waiter waiters[WAITERS];

    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    for (int i = 0; i < WAITERS; i++)
        waiter_start(&waiters[i]);
    sqlite_ticket_lock_exit(&door->lock, &a);
    for (uint32_t i = 0; i < WAITERS; i++)
        waiter_join(&waiters[i], i);
    assert_no_ticket();
}

Test(tickets, in_the_order_of_coming)
{
    order_is_kept();
}

Test(tickets, who_gives_up_is_not_waited_for)
{
    struct waiter first, last;

    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    waiter_start(&first);
    cr_assert_eq(dlt_door_enter(&b, 20), ETIMEDOUT);
    waiter_start(&last);
    sqlite_ticket_lock_exit(&door->lock, &a);
    waiter_join(&first, 0);
    waiter_join(&last, 1);
    assert_no_ticket();
}

Test(tickets, the_only_one_who_gives_up_leaves_nothing_behind)
{
    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    for (uint32_t i = 0; i < SQ_TICKETS_GIVEN_UP + 2; i++)
        cr_assert_eq(dlt_door_enter(&b, 0), ETIMEDOUT);
    assert_no_ticket();
    sqlite_ticket_lock_exit(&door->lock, &a);
    cr_assert_eq(dlt_door_enter(&b, 0), 0);
}

/* a was in last, in its turn, and somebody waits. */
static void left_before_a_waiter(void)
{
    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    a.since_ns = sqlite_clock_boottime();
    sqlite_ticket_lock_exit(&door->lock, &a);
    vanish();
}

Test(tickets, who_left_may_return_before_a_waiter_is_awake)
{
    left_before_a_waiter();
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_door_enter(&a, 20), 0);
        sqlite_ticket_lock_exit(&door->lock, &a);
    }
    cr_assert_eq(door->lock.next, 1u, "without a ticket");
}

Test(tickets, but_not_when_it_is)
{
    left_before_a_waiter();
    door->lock.awake = door->lock.served;
    cr_assert_eq(dlt_door_enter(&a, 20), ETIMEDOUT);
}

Test(tickets, and_not_for_long)
{
    left_before_a_waiter();
    a.since_ns -= SQ_TICKET_RUN_NS;
    cr_assert_eq(dlt_door_enter(&a, 20), ETIMEDOUT);
}

Test(tickets, and_not_when_another_was_in)
{
    left_before_a_waiter();
    b = a;
    cr_assert_eq(dlt_door_enter(&b, 20), 0);
    sqlite_ticket_lock_exit(&door->lock, &b);
    cr_assert_eq(dlt_door_enter(&a, 20), ETIMEDOUT);
}

Test(tickets, tickets_wrap_around)
{
    door->lock.next = door->lock.served = UINT32_MAX - 3;
    order_is_kept();
}
