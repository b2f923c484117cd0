/* SPDX-License-Identifier: MIT */
#include "client/local_queue.h"

#include <stddef.h>

bool dl_local_queue_open_to(const struct dl_local_queue *queue, enum dlock_mode mode)
{
    const struct dl_local_waiter *last = queue->last;

    return last == NULL || (mode == DLOCK_SHARED && last->mode == DLOCK_SHARED && last->admitted);
}

void dl_local_queue_push(struct dl_local_queue *queue, struct dl_local_waiter *turn,
                         enum dlock_mode mode)
{
    *turn = (struct dl_local_waiter){.prev = queue->last,
                                     .mode = mode,
                                     .queued = true,
                                     .admitted = dl_local_queue_open_to(queue, mode)};
    if (queue->last != NULL)
        queue->last->next = turn;
    else
        queue->first = turn;
    queue->last = turn;
}

void dl_local_queue_remove(struct dl_local_queue *queue, struct dl_local_waiter *turn)
{
    if (!turn->queued)
        return;
    if (turn->prev != NULL)
        turn->prev->next = turn->next;
    else
        queue->first = turn->next;
    if (turn->next != NULL)
        turn->next->prev = turn->prev;
    else
        queue->last = turn->prev;
    *turn = (struct dl_local_waiter){0};
}

struct dl_local_waiter *dl_local_queue_admit(struct dl_local_queue *queue)
{
    struct dl_local_waiter *turn = queue->first;

    while (turn != NULL && turn->admitted && turn->mode == DLOCK_SHARED)
        turn = turn->next;
    if (turn == NULL || turn->admitted || (turn != queue->first && turn->mode != DLOCK_SHARED))
        return NULL;
    turn->admitted = true;
    return turn;
}
