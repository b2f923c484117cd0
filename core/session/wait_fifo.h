/* SPDX-License-Identifier: MIT */
/*
 * wait_fifo.h - threads that stand in line, each asleep on its own until it is served.
 *
 * Who serves takes waiters out of the line with the mutex of the line's owner held, and wakes them
 * without it: nobody wakes up only to wait for that mutex.
 */
#ifndef DL_WAIT_FIFO_H
#define DL_WAIT_FIFO_H

#include "sys/clock.h"

#include <pthread.h>
#include <stdbool.h>

/* On the stack of the thread that waits. */
struct dl_wait_fifo_waiter {
    struct dl_wait_fifo_waiter *next;
    bool linked;           /* under the owner's mutex */
    void *got;             /* written by who serves, before the wake */
    pthread_mutex_t mutex; /* of served alone; a leaf */
    pthread_cond_t served_changed;
    bool served;
};

struct dl_wait_fifo {
    struct dl_wait_fifo_waiter *first, *last; /* no first: last means nothing */
};

/* 0 or an errno. */
int dl_wait_fifo_waiter_init(struct dl_wait_fifo_waiter *waiter);
/* Not while it is in line, or taken out of it and not yet served. */
void dl_wait_fifo_waiter_fini(struct dl_wait_fifo_waiter *waiter);

/* With the owner's mutex held. */
void dl_wait_fifo_join(struct dl_wait_fifo *fifo, struct dl_wait_fifo_waiter *waiter);
void dl_wait_fifo_unlink(struct dl_wait_fifo *fifo, struct dl_wait_fifo_waiter *waiter);

/* Serves all of a chain of waiters, none of which is in line. They may be gone when it returns. */
void dl_wait_fifo_wake(struct dl_wait_fifo_waiter *chain);

/* Until it is served (true), or until_ns. Without the owner's mutex. */
bool dl_wait_fifo_waiter_sleep(struct dl_wait_fifo_waiter *waiter, const struct dl_clock *clock,
                               int64_t until_ns);

#endif
