/* SPDX-License-Identifier: MIT */
/*
 * local_queue.h - the threads of one client that wait for one name, first come first served. Pure.
 *
 * Only who is admitted goes to the store: the first, and, when that is a reader, the readers right
 * behind it. A reader does not pass a waiting writer. The client's mutex guards it.
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

/* Whether a new turn would be admitted at once. */
bool dl_local_queue_open_to(const struct dl_local_queue *queue, enum dlock_mode mode);

void dl_local_queue_push(struct dl_local_queue *queue, struct dl_local_waiter *waiter,
                         enum dlock_mode mode);

/* Nothing happens when it is not in. */
void dl_local_queue_remove(struct dl_local_queue *queue, struct dl_local_waiter *waiter);

/* Admits one more turn and returns it; NULL: there is none to admit now. */
struct dl_local_waiter *dl_local_queue_admit(struct dl_local_queue *queue);

#endif
