/* SPDX-License-Identifier: MIT */
/*
 * wait_list.h - threads that sleep until something changes: a condition variable that is no larger
 * than a pointer while no thread sleeps. Handles are many, and few of them are waited for.
 *
 * A list of zeros is empty, and there is nothing to destroy. One mutex, the same in all calls,
 * guards it.
 */
#ifndef DL_WAIT_LIST_H
#define DL_WAIT_LIST_H

#include "sys/clock.h"

#include <pthread.h>

struct dl_wait_list_waiter;

struct dl_wait_list {
    struct dl_wait_list_waiter *first;
};

/* Sleeps until it is woken, until the clock passes deadline_ns, or for no reason, as dl_clock_wait.
 * Releases the mutex meanwhile. */
void dl_wait_list_sleep_locked(struct dl_wait_list *list, pthread_mutex_t *mutex,
                               const struct dl_clock *clock, int64_t deadline_ns);

/* Wakes all threads of the list. */
void dl_wait_list_wake_locked(struct dl_wait_list *list);

#endif
