/* SPDX-License-Identifier: MIT */
#include "client/local_queue.h"

#include <stddef.h>

bool dl_local_queue_open_to(const struct dl_local_queue *queue, enum dlock_mode mode)
{
    const struct dl_local_waiter *last = queue->last;

    return last == NULL || (mode == DLOCK_SHARED && last->mode == DLOCK_SHARED && last->admitted);
}

void dl_local_queue_push(struct dl_local_queue *queue, struct dl_local_waiter *waiter,
                         enum dlock_mode mode)
{
    *waiter = (struct dl_local_waiter){.prev = queue->last,
                                       .mode = mode,
                                       .queued = true,
                                       .admitted = dl_local_queue_open_to(queue, mode)};
    if (queue->last != NULL)
        queue->last->next = waiter;
    else
        queue->first = waiter;
    queue->last = waiter;
}

void dl_local_queue_remove(struct dl_local_queue *queue, struct dl_local_waiter *waiter)
{
    if (!waiter->queued)
        return;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        queue->first = waiter->next;
    if (waiter->next != NULL)
        waiter->next->prev = waiter->prev;
    else
        queue->last = waiter->prev;
    *waiter = (struct dl_local_waiter){0};
}

struct dl_local_waiter *dl_local_queue_admit(struct dl_local_queue *queue)
{
    struct dl_local_waiter *waiter = queue->first;

    while (waiter != NULL && waiter->admitted && waiter->mode == DLOCK_SHARED)
        waiter = waiter->next;
    if (waiter == NULL || waiter->admitted ||
        (waiter != queue->first && waiter->mode != DLOCK_SHARED))
        return NULL;
    waiter->admitted = true;
    return waiter;
}
