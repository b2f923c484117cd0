/* SPDX-License-Identifier: MIT */
/*
 * wait_list.h - who sleeps until something changes: a condition variable that is no more than a
 * pointer while nobody does. Handles are many, and few of them are waited for.
 *
 * Zeroed is empty, and there is nothing to destroy. One mutex, the same in all calls, guards it.
 */
#ifndef DL_WAIT_LIST_H
#define DL_WAIT_LIST_H

#include "sys/clock.h"

#include <pthread.h>

struct dl_wait_list_waiter;

struct dl_wait_list {
    struct dl_wait_list_waiter *first;
};

/* Sleeps until woken, or until the clock passes deadline_ns, or for no reason: as
 * dl_clock_wait. With the mutex held, which it gives up meanwhile. */
void dl_wait_list_join(struct dl_wait_list *list, pthread_mutex_t *mutex,
                       const struct dl_clock *clock, int64_t deadline_ns);

/* Wakes all. With the mutex held. */
void dl_wait_list_wake(struct dl_wait_list *list);

#endif
