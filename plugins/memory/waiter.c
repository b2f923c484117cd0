/* SPDX-License-Identifier: MIT */
#include "waiter.h"

#include "lib/deadline_cond.h"

#include <string.h>

static void unlink_from(struct memory_waiter **list, struct memory_waiter *waiter)
{
    while (*list != waiter)
        list = &(*list)->next;
    *list = waiter->next;
}

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
    unlink_from(list, waiter);
    return true;
}

void memory_waiter_list(struct memory_waiter *waiter, struct memory_waiter **list,
                        const struct dlock_request *req, struct memory_news *news)
{
    if (waiter->listed)
        return;
    waiter->listed = true;
    waiter->number = dlock_request_waiter(req);
    waiter->news = news;
    memcpy(waiter->token, req->token, sizeof waiter->token);
    waiter->next = *list;
    *list = waiter;
}

void memory_waiter_unlist(struct memory_waiter *waiter, struct memory_waiter **list)
{
    memory_waiter_news_clear(waiter);
    if (waiter->listed)
        unlink_from(list, waiter);
    waiter->listed = false;
}

void memory_waiter_news_clear(struct memory_waiter *waiter)
{
    struct memory_waiter **link;

    if (!waiter->is_news)
        return;
    link = &waiter->news->first;
    while (*link != waiter)
        link = &(*link)->next_news;
    *link = waiter->next_news;
    waiter->is_news = false;
}

size_t memory_waiter_news_take(struct memory_news *news, uint32_t *numbers, size_t room)
{
    size_t count = 0;

    while (count < room && news->first != NULL) {
        numbers[count++] = news->first->number;
        news->first->is_news = false;
        news->first = news->first->next_news;
    }
    return count;
}

static void wake(struct memory_waiter *waiter)
{
    struct memory_news *news = waiter->news;

    if (!waiter->listed) {
        (void)pthread_cond_signal(&waiter->wake);
    } else if (!waiter->is_news) {
        waiter->is_news = true;
        waiter->next_news = news->first;
        news->first = waiter;
        (void)pthread_cond_signal(&news->wake);
    }
}

void memory_waiter_wake(struct memory_waiter *list, const unsigned char *token)
{
    while (list != NULL && memcmp(list->token, token, DLOCK_TOKEN_SIZE) != 0)
        list = list->next;
    if (list != NULL)
        wake(list);
}

void memory_waiter_wake_unqueued(struct memory_waiter *list)
{
    for (; list != NULL; list = list->next) {
        if (!list->enqueued)
            wake(list);
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
