/* SPDX-License-Identifier: MIT */
#include "session/wait_fifo.h"

int dl_wait_fifo_waiter_init(struct dl_wait_fifo_waiter *waiter)
{
    int rc;

    *waiter = (struct dl_wait_fifo_waiter){0};
    rc = pthread_mutex_init(&waiter->mutex, NULL);
    if (rc != 0)
        return rc;
    rc = dl_deadline_cond_init(&waiter->served_changed);
    if (rc != 0)
        (void)pthread_mutex_destroy(&waiter->mutex);
    return rc;
}

void dl_wait_fifo_waiter_fini(struct dl_wait_fifo_waiter *waiter)
{
    (void)pthread_cond_destroy(&waiter->served_changed);
    (void)pthread_mutex_destroy(&waiter->mutex);
}

void dl_wait_fifo_join_locked(struct dl_wait_fifo *fifo, struct dl_wait_fifo_waiter *waiter)
{
    if (fifo->first == NULL)
        fifo->first = waiter;
    else
        fifo->last->next = waiter;
    fifo->last = waiter;
    waiter->linked = true;
}

void dl_wait_fifo_unlink_locked(struct dl_wait_fifo *fifo, struct dl_wait_fifo_waiter *waiter)
{
    struct dl_wait_fifo_waiter *before = NULL, **at = &fifo->first;

    while (*at != waiter) {
        before = *at;
        at = &before->next;
    }
    *at = waiter->next;
    if (fifo->last == waiter)
        fifo->last = before;
    waiter->next = NULL;
    waiter->linked = false;
}

void dl_wait_fifo_wake(struct dl_wait_fifo_waiter *chain)
{
    while (chain != NULL) {
        struct dl_wait_fifo_waiter *waiter = chain;

        chain = waiter->next;
        (void)pthread_mutex_lock(&waiter->mutex);
        waiter->served = true;
        (void)pthread_cond_broadcast(&waiter->served_changed);
        (void)pthread_mutex_unlock(&waiter->mutex);
    }
}

bool dl_wait_fifo_waiter_sleep(struct dl_wait_fifo_waiter *waiter, const struct dl_clock *clock,
                               int64_t until_ns)
{
    bool served;

    (void)pthread_mutex_lock(&waiter->mutex);
    while (!waiter->served && dl_clock_now(clock) < until_ns)
        dl_clock_wait(&waiter->served_changed, &waiter->mutex, clock, until_ns);
    served = waiter->served;
    (void)pthread_mutex_unlock(&waiter->mutex);
    return served;
}
