/* SPDX-License-Identifier: MIT */
/* Tests: core/client/events.c */
/* Do losses arrive once, in order, and does the descriptor say when there are any (C5)? */
#include "client/events.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

static int readable(const struct dl_events *events)
{
    struct pollfd fd = {.fd = events->fd, .events = POLLIN};

    return poll(&fd, 1, 0);
}

Test(event, come_once_and_in_order)
{
    struct dl_events events;
    struct dl_event_node a = {0}, b = {0};

    cr_assert_eq(dl_events_init(&events, true), 0);
    cr_assert_eq(readable(&events), 0);
    dl_events_push(&events, &a);
    dl_events_push(&events, &b);
    cr_assert_eq(readable(&events), 1);
    cr_assert_eq(dl_events_pop(&events), &a);
    cr_assert_eq(readable(&events), 1);
    cr_assert_eq(dl_events_pop(&events), &b);
    cr_assert_eq(readable(&events), 0);
    cr_assert_null(dl_events_pop(&events));
    dl_events_fini(&events);
}

Test(event, one_that_is_dropped_does_not_come)
{
    struct dl_events events;
    struct dl_event_node a = {0}, b = {0}, c = {0};

    cr_assert_eq(dl_events_init(&events, true), 0);
    dl_events_push(&events, &a);
    dl_events_push(&events, &b);
    dl_events_push(&events, &c);
    dl_events_remove(&events, &c);
    dl_events_remove(&events, &a);
    dl_events_remove(&events, &a);
    dl_events_push(&events, &a);
    cr_assert_eq(dl_events_pop(&events), &b);
    cr_assert_eq(dl_events_pop(&events), &a);
    cr_assert_eq(readable(&events), 0);
    dl_events_fini(&events);
}

/* Many that come together wake the application once. */
Test(event, the_descriptor_is_raised_when_they_are_let_go)
{
    struct dl_events events;
    struct dl_event_node a = {0}, b = {0}, c = {0};
    eventfd_t count = 0;

    cr_assert_eq(dl_events_init(&events, true), 0);
    dl_events_hold(&events);
    dl_events_push(&events, &a);
    dl_events_push(&events, &b);
    cr_assert_eq(readable(&events), 0);
    dl_events_let_go(&events);
    cr_assert_eq(readable(&events), 1);
    dl_events_hold(&events); /* it is raised already */
    dl_events_push(&events, &c);
    dl_events_let_go(&events);
    cr_assert_eq(eventfd_read(events.fd, &count), 0);
    cr_assert_eq(count, 1, "raised %llu times", (unsigned long long)count);
    cr_assert_eq(dl_events_pop(&events), &a);
    cr_assert_eq(dl_events_pop(&events), &b);
    cr_assert_eq(dl_events_pop(&events), &c);
    dl_events_hold(&events);
    dl_events_let_go(&events); /* none came */
    cr_assert_eq(readable(&events), 0);
    dl_events_fini(&events);
}

Test(event, without_a_descriptor_it_still_queues)
{
    struct dl_events events;
    struct dl_event_node a = {0};

    cr_assert_eq(dl_events_init(&events, false), 0);
    dl_events_push(&events, &a);
    cr_assert_eq(dl_events_pop(&events), &a);
    dl_events_fini(&events);
}

/* An application that was built against a newer or an older header. */
