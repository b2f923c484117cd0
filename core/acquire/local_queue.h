/* SPDX-License-Identifier: MIT */
/*
 * local_queue.h - the threads of one client that wait for one name, first come first served. Pure.
 *
 * Only who is admitted goes to the store: the first, and, when that is a reader, the readers right
 * behind it. A reader does not pass a waiting writer. The client's mutex guards it.
 */
#ifndef DL_LOCAL_QUEUE_H
#define DL_LOCAL_QUEUE_H

#include <dlock/status.h>
#include <stdbool.h>

struct dl_turn {
    struct dl_turn *prev, *next;
    enum dlock_mode mode;
    bool queued, admitted;
};

struct dl_queue {
    struct dl_turn *first, *last;
};

/* Whether a new turn would be admitted at once. */
bool dl_queue_open_to(const struct dl_queue *queue, enum dlock_mode mode);

void dl_queue_push(struct dl_queue *queue, struct dl_turn *turn, enum dlock_mode mode);

/* Nothing happens when it is not in. */
void dl_queue_remove(struct dl_queue *queue, struct dl_turn *turn);

/* Admits one more turn and returns it; NULL: there is none to admit now. */
struct dl_turn *dl_queue_admit(struct dl_queue *queue);

#endif
