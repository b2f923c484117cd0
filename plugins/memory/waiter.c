/* SPDX-License-Identifier: MIT */
#include "waiter.h"

#include "lib/deadline_cond.h"

#include <string.h>

bool memory_waiter_sleep(struct memory_waiter *waiter, struct memory_waiter **list,
                         const unsigned char *token, pthread_mutex_t *mutex, int64_t ns)
{
    if (!waiter->has_wake && dl_deadline_cond_init(&waiter->wake) != 0)
        return false;
    waiter->has_wake = true;
    memcpy(waiter->token, token, sizeof waiter->token);
    waiter->next = *list;
    *list = waiter;
    waiter->sleeping = true;
    dl_deadline_cond_wait(&waiter->wake, mutex, ns);
    waiter->sleeping = false;
    while (*list != waiter)
        list = &(*list)->next;
    *list = waiter->next;
    return true;
}

void memory_waiter_wake(struct memory_waiter *list, const unsigned char *token)
{
    while (list != NULL && memcmp(list->token, token, DLOCK_TOKEN_SIZE) != 0)
        list = list->next;
    if (list != NULL)
        (void)pthread_cond_signal(&list->wake);
}

void memory_waiter_wake_unqueued(struct memory_waiter *list)
{
    for (; list != NULL; list = list->next) {
        if (!list->enqueued)
            (void)pthread_cond_signal(&list->wake);
    }
}

void memory_waiter_interrupt(struct memory_waiter *waiter, uint64_t last_fence)
{
    if (!waiter->interrupted)
        waiter->interrupt_fence = last_fence;
    waiter->interrupted = true;
    if (waiter->sleeping)
        (void)pthread_cond_signal(&waiter->wake);
}

void memory_waiter_fini(struct memory_waiter *waiter)
{
    if (waiter->has_wake)
        (void)pthread_cond_destroy(&waiter->wake);
    waiter->has_wake = false;
}
