/* SPDX-License-Identifier: MIT */
/*
 * combine.h - a line of threads that want exchanges of one kind with the store: a thread in front
 * makes one exchange for itself and for the threads that stand behind it.
 *
 * A few threads at a time, one a lane, are in an exchange. The next thread waits in the line. The
 * line begins when there are twice as many threads as lanes; while it is there, the threads in
 * front are not more than the lanes. A wait has two ends: a thread that was in an exchange lets the
 * first of the line go on, or has taken the request of the waiting thread along. A request that was
 * taken along is in the hands of that other thread until its exchange has ended: its own thread
 * cannot time out meanwhile. The exchange has a deadline, and so has the wait. A thread takes no
 * request of a thread of higher priority along, which would run as late as itself.
 *
 * The lanes save work and protect nothing: a thread that waited for DL_COMBINE_PATIENCE_NS goes on
 * without a lane, so that an exchange that the store does not answer holds up no other call.
 *
 * The mutex of a line is taken with no other mutex held, and no slot is called while it is held.
 */
#ifndef DL_COMBINE_H
#define DL_COMBINE_H

#include "session/wait_fifo.h"

#include <stddef.h>

#define DL_COMBINE_PATIENCE_NS (20 * DL_NS_PER_MS)

/* Zeroes, but for the mutex. */
struct dl_combine {
    pthread_mutex_t mutex;
    unsigned active; /* threads that are in an exchange, or let go on */
    struct dl_wait_fifo fifo;
};

/* Whether the request of a waiting thread can share the exchange of arg. */
typedef bool dl_combine_fits_fn(const void *request, const void *arg);

/* 0 or an errno. */
int dl_combine_init(struct dl_combine *line);
void dl_combine_fini(struct dl_combine *line);

/* true: the caller makes an exchange, and then calls dl_combine_end. false: another thread has
 * taken the request along, and is done with it. Waits until until_ns at most for a lane. */
bool dl_combine_enter(struct dl_combine *line, unsigned lanes, const struct dl_clock *clock,
                      void *request, int64_t until_ns);

/* Takes along the requests that fit and are of no thread of higher priority, the oldest first,
 * `most` at most; returns how many. They are the caller's until dl_combine_end. *chain: their
 * threads; NULL before. */
size_t dl_combine_take(struct dl_combine *line, dl_combine_fits_fn *fits, const void *arg,
                       void **requests, size_t most, struct dl_wait_fifo_waiter **chain);

/* The exchange has ended. Lets the first of the line go on, and wakes the threads of the chain. */
void dl_combine_end(struct dl_combine *line, unsigned lanes, struct dl_wait_fifo_waiter *chain);

#endif
