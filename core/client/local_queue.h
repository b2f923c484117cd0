/* SPDX-License-Identifier: MIT */
/*
 * local_queue.h - the threads of one client that wait for one name, in the order of their arrival.
 * Pure.
 *
 * Only admitted waiters go to the store: the first waiter and, if it is a reader, the readers
 * directly behind it. A reader does not pass a waiting writer. The client's mutex guards it.
 */
#ifndef DL_LOCAL_QUEUE_H
#define DL_LOCAL_QUEUE_H

#include <dlock/types.h>
#include <stdbool.h>

struct dl_local_waiter {
    struct dl_local_waiter *prev, *next;
    enum dlock_mode mode;
    bool queued, admitted;
};

struct dl_local_queue {
    struct dl_local_waiter *first, *last;
};

/* Whether a new waiter would be admitted at once. */
bool dl_local_queue_open_to(const struct dl_local_queue *queue, enum dlock_mode mode);

void dl_local_queue_push(struct dl_local_queue *queue, struct dl_local_waiter *waiter,
                         enum dlock_mode mode);

/* Takes the waiter out; does nothing if it is not in the queue. */
void dl_local_queue_remove(struct dl_local_queue *queue, struct dl_local_waiter *waiter);

/* Admits one more waiter and returns it; NULL: none can be admitted now. */
struct dl_local_waiter *dl_local_queue_admit(struct dl_local_queue *queue);

#endif
