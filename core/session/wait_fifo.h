/* SPDX-License-Identifier: MIT */
/*
 * wait_fifo.h - a queue of threads, each of which sleeps on its own until it is served.
 *
 * The thread that serves takes waiters out of the queue with the mutex of the queue's owner held,
 * and wakes them without it: no thread wakes up only to wait for that mutex.
 */
#ifndef DL_WAIT_FIFO_H
#define DL_WAIT_FIFO_H

#include "sys/clock.h"

#include <pthread.h>
#include <stdbool.h>

/* One thread that waits; on its stack. */
struct dl_wait_fifo_waiter {
    struct dl_wait_fifo_waiter *next;
    bool linked;           /* in the queue; the owner's mutex guards it */
    void *got;             /* written by the thread that serves, before the wake-up */
    pthread_mutex_t mutex; /* guards `served`; the last mutex that is taken */
    pthread_cond_t served_changed;
    bool served;
};

struct dl_wait_fifo {
    struct dl_wait_fifo_waiter *first, *last; /* last is undefined while first is NULL */
};

/* 0 or an errno. */
int dl_wait_fifo_waiter_init(struct dl_wait_fifo_waiter *waiter);
/* Not while the waiter is in the queue, or taken out and not yet served. */
void dl_wait_fifo_waiter_fini(struct dl_wait_fifo_waiter *waiter);

/* Adds a waiter at the tail, and takes one out. */
void dl_wait_fifo_join_locked(struct dl_wait_fifo *fifo, struct dl_wait_fifo_waiter *waiter);
void dl_wait_fifo_unlink_locked(struct dl_wait_fifo *fifo, struct dl_wait_fifo_waiter *waiter);

/* Serves and wakes all waiters of a chain; none of them is in the queue. They may be gone when it
 * returns. */
void dl_wait_fifo_wake(struct dl_wait_fifo_waiter *chain);

/* Sleeps until the waiter is served (true), or until until_ns. Without the owner's mutex. */
bool dl_wait_fifo_waiter_sleep(struct dl_wait_fifo_waiter *waiter, const struct dl_clock *clock,
                               int64_t until_ns);

#endif
