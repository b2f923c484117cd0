/* SPDX-License-Identifier: MIT */
#include "session/wait_list.h"

/* On the stack of the thread that sleeps. */
struct dl_wait_list_waiter {
    struct dl_wait_list_waiter *next;
    pthread_cond_t woken;
};

static void waiter_unlink(struct dl_wait_list *list, struct dl_wait_list_waiter *waiter)
{
    struct dl_wait_list_waiter **at = &list->first;

    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
}

void dl_wait_list_sleep_locked(struct dl_wait_list *list, pthread_mutex_t *mutex,
                               const struct dl_clock *clock, int64_t deadline_ns)
{
    struct dl_wait_list_waiter self = {.next = list->first};

    (void)dl_deadline_cond_init(
        &self.woken); /* without attributes that need memory it cannot fail */
    list->first = &self;
    dl_clock_wait(&self.woken, mutex, clock, deadline_ns);
    waiter_unlink(list, &self);
    (void)pthread_cond_destroy(&self.woken);
}

void dl_wait_list_wake_locked(struct dl_wait_list *list)
{
    for (struct dl_wait_list_waiter *waiter = list->first; waiter != NULL; waiter = waiter->next)
        (void)pthread_cond_broadcast(&waiter->woken);
}
