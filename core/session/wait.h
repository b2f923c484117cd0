/* SPDX-License-Identifier: MIT */
/*
 * wait.h - how threads wait for each other: in a queue (wait_fifo), for a change (wait_list), and
 * for an exchange that they can share (wait_combine).
 */
#ifndef DL_WAIT_H
#define DL_WAIT_H

#include "sys/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * wait_fifo: a queue of threads, each of which sleeps on its own until it is served.
 *
 * The thread that serves takes waiters out of the queue with the mutex of the queue's owner held,
 * and wakes them without it: no thread wakes up only to wait for that mutex.
 */

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

/*
 * wait_list: threads that sleep until something changes: a condition variable that is no larger
 * than a pointer while no thread sleeps. Handles are many, and few of them are waited for.
 *
 * A list of zeros is empty, and there is nothing to destroy. One mutex, the same in all calls,
 * guards it.
 */

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

/*
 * wait_combine: a line of threads that want exchanges of one kind with the store: a thread in front
 * makes one exchange for itself and for the threads that stand behind it.
 *
 * A few threads at a time are in an exchange: as many as the parallelism of the store. The next
 * thread waits in the line. The line begins when there are twice as many threads; while it is
 * there, the threads in front are not more than the parallelism. A wait has two ends: a thread that
 * was in an exchange lets the first of the line go on, or has taken the request of the waiting
 * thread along. A request that was taken along is in the hands of that other thread until its
 * exchange has ended: its own thread cannot time out meanwhile. The exchange has a deadline, and so
 * has the wait. A thread takes no request of a thread of higher priority along, which would run as
 * late as itself.
 *
 * The limit saves work and protects nothing: a thread that waited for DL_WAIT_COMBINE_PATIENCE_NS
 * makes an exchange all the same, so that an exchange that the store does not answer holds up no
 * other call.
 *
 * The mutex of a line is taken with no other mutex held, and no slot is called while it is held.
 */

#define DL_WAIT_COMBINE_PATIENCE_NS (20 * DL_NS_PER_MS)

/* Zeroes, but for the mutex. */
struct dl_wait_combine {
    pthread_mutex_t mutex;
    unsigned active; /* threads that are in an exchange, or let go on */
    struct dl_wait_fifo fifo;
};

/* Whether the request of a waiting thread can share the exchange of arg. */
typedef bool dl_wait_combine_fits_fn(const void *request, const void *arg);

/* 0 or an errno. */
int dl_wait_combine_init(struct dl_wait_combine *line);
void dl_wait_combine_fini(struct dl_wait_combine *line);

/* true: the caller makes an exchange, and then calls dl_wait_combine_end. false: another thread has
 * taken the request along, and is done with it. Waits until until_ns at most. */
bool dl_wait_combine_enter(struct dl_wait_combine *line, unsigned parallelism,
                           const struct dl_clock *clock, void *request, int64_t until_ns);

/* Takes along the requests that fit and are of no thread of higher priority, the oldest first,
 * `most` at most; returns how many. They are the caller's until dl_wait_combine_end. *chain: their
 * threads; NULL before. */
size_t dl_wait_combine_take(struct dl_wait_combine *line, dl_wait_combine_fits_fn *fits,
                            const void *arg, void **requests, size_t most,
                            struct dl_wait_fifo_waiter **chain);

/* The exchange has ended. Lets the first of the line go on, and wakes the threads of the chain. */
void dl_wait_combine_end(struct dl_wait_combine *line, unsigned parallelism,
                         struct dl_wait_fifo_waiter *chain);

#endif
