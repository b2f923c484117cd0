/* SPDX-License-Identifier: MIT */
#include "session/wait_list.h"

/* On the stack of the thread that sleeps. */
struct dl_sleeper {
    struct dl_sleeper *next;
    pthread_cond_t woken;
};

static void sleeper_remove(struct dl_wait_list *sleepers, struct dl_sleeper *sleeper)
{
    struct dl_sleeper **at = &sleepers->first;

    while (*at != sleeper)
        at = &(*at)->next;
    *at = sleeper->next;
}

void dl_wait_list_join(struct dl_wait_list *sleepers, pthread_mutex_t *mutex,
                       const struct dl_clock *clock, int64_t deadline_ns)
{
    struct dl_sleeper self = {.next = sleepers->first};

    (void)dl_deadline_cond_init(
        &self.woken); /* without attributes that need memory it cannot fail */
    sleepers->first = &self;
    dl_clock_wait(&self.woken, mutex, clock, deadline_ns);
    sleeper_remove(sleepers, &self);
    (void)pthread_cond_destroy(&self.woken);
}

void dl_wait_list_wake(struct dl_wait_list *sleepers)
{
    for (struct dl_sleeper *sleeper = sleepers->first; sleeper != NULL; sleeper = sleeper->next)
        (void)pthread_cond_broadcast(&sleeper->woken);
}
