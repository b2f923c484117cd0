/* SPDX-License-Identifier: MIT */
#include "net/waiters.h"
#include "lib/time.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool waiters_init(struct waiters *waiters)
{
    (void)pthread_mutex_init(&waiters->mutex, NULL);
    (void)dl_deadline_cond_init(&waiters->any.wake);
    waiters->any.list = waiters;
    waiters->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return waiters->wake_fd >= 0;
}

void waiters_fini(struct waiters *waiters)
{
    for (struct waiter *at = waiters->first; at != NULL; at = at->next) {
        at->list = NULL;
        (void)pthread_cond_destroy(&at->wake);
    }
    if (waiters->wake_fd >= 0)
        (void)close(waiters->wake_fd);
    (void)pthread_cond_destroy(&waiters->any.wake);
    (void)pthread_mutex_destroy(&waiters->mutex);
}

void waiters_after_fork(struct waiters *waiters)
{
    if (waiters->wake_fd >= 0)
        (void)close(waiters->wake_fd);
    waiters->wake_fd = -1;
}

void waiters_add_locked(struct waiters *waiters, struct waiter *waiter, const unsigned char *token)
{
    (void)dl_deadline_cond_init(&waiter->wake);
    memcpy(waiter->token, token, sizeof waiter->token);
    waiter->list = waiters;
    waiter->next = waiters->first;
    waiter->at = &waiters->first;
    if (waiter->next != NULL)
        waiter->next->at = &waiter->next;
    waiters->first = waiter;
}

void waiters_remove_locked(struct waiter *waiter)
{
    waiters_news_clear_locked(waiter);
    *waiter->at = waiter->next;
    if (waiter->next != NULL)
        waiter->next->at = waiter->at;
    waiter->list = NULL;
    (void)pthread_cond_destroy(&waiter->wake);
}

struct waiter *waiters_find_locked(const struct waiters *waiters, const unsigned char *token)
{
    struct waiter *waiter = waiters->first;

    while (waiter != NULL && memcmp(waiter->token, token, sizeof waiter->token) != 0)
        waiter = waiter->next;
    return waiter;
}

static void news_add_locked(struct waiter *waiter, bool leader)
{
    struct waiters *waiters = waiter->list;

    if (!waiter->is_news) {
        waiter->is_news = true;
        waiter->next_news = waiters->news;
        waiters->news = waiter;
    }
    waiters_wake_locked(&waiters->any, leader);
}

void waiters_wake_locked(struct waiter *waiter, bool leader)
{
    static const uint64_t one = 1;

    if (waiter->number != 0)
        news_add_locked(waiter, leader);
    if (waiter->leading && leader)
        (void)!write(waiter->list->wake_fd, &one, sizeof one);
    if (waiter->watching && !waiter->leading)
        (void)pthread_cond_signal(&waiter->wake);
}

struct waiter *waiters_news_next_locked(struct waiters *waiters)
{
    struct waiter *waiter = waiters->news;

    if (waiter == NULL)
        return NULL;
    waiter->is_news = false;
    waiters->news = waiter->next_news;
    return waiter;
}

size_t waiters_news_take_locked(struct waiters *waiters, uint32_t *numbers, size_t room)
{
    const struct waiter *waiter = NULL;
    size_t count = 0;

    while (count < room && (waiter = waiters_news_next_locked(waiters)) != NULL)
        numbers[count++] = waiter->number;
    return count;
}

void waiters_news_clear_locked(struct waiter *waiter)
{
    struct waiter **link = NULL;

    if (!waiter->is_news)
        return;
    link = &waiter->list->news;
    while (*link != waiter)
        link = &(*link)->next_news;
    *link = waiter->next_news;
    waiter->is_news = false;
}

void waiters_interrupt_any_locked(struct waiters *waiters)
{
    waiters->any.interrupted = true;
    waiters_wake_locked(&waiters->any, true);
}

void waiters_interrupt_any(struct waiters *waiters)
{
    (void)pthread_mutex_lock(&waiters->mutex);
    waiters_interrupt_any_locked(waiters);
    (void)pthread_mutex_unlock(&waiters->mutex);
}

bool waiters_lead_locked(struct waiters *waiters)
{
    if (waiters->led)
        return false;
    waiters->led = true;
    return true;
}

bool waiters_lead_or_sleep_locked(struct waiter *waiter, int64_t left_ns)
{
    struct waiters *waiters = waiter->list;

    if (left_ns > 0 && !waiters_lead_locked(waiters)) {
        dl_deadline_cond_wait(&waiter->wake, &waiters->mutex, left_ns);
        return false;
    }
    waiter->leading = left_ns > 0;
    return waiter->leading;
}

void waiters_led_locked(struct waiter *waiter)
{
    waiter->leading = false;
    waiter->list->led = false;
}

void waiters_hand_over_locked(struct waiters *waiters)
{
    struct waiter *next = waiters->first;

    while (next != NULL && !next->watching)
        next = next->next;
    if (next == NULL && waiters->any.watching)
        next = &waiters->any;
    if (next != NULL && !waiters->led)
        (void)pthread_cond_signal(&next->wake);
}

bool waiters_await(const struct waiters *waiters, int fd, int64_t left_ns)
{
    struct pollfd fds[2] = {{.fd = waiters->wake_fd, .events = POLLIN},
                            {.fd = fd, .events = POLLIN}};
    struct timespec timeout = dl_deadline_cond_slice(left_ns);
    uint64_t wakes = 0;

    if (ppoll(fds, 2, &timeout, NULL) <= 0)
        return false;
    if (fds[0].revents != 0)
        (void)!read(waiters->wake_fd, &wakes, sizeof wakes);
    return fds[1].revents != 0;
}
