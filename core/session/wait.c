/* SPDX-License-Identifier: MIT */
#include "session/wait.h"
#include "sys/own_thread.h"

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

/* On the stack of the thread that sleeps. */
struct dl_wait_list_waiter {
    struct dl_wait_list_waiter *next;
    pthread_cond_t woken;
};

static void waiter_unlink(struct dl_wait_list *list, struct dl_wait_list_waiter *waiter)
{
    struct dl_wait_list_waiter **at = &list->first;

    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
}

void dl_wait_list_sleep_locked(struct dl_wait_list *list, pthread_mutex_t *mutex,
                               const struct dl_clock *clock, int64_t deadline_ns)
{
    struct dl_wait_list_waiter self = {.next = list->first};

    (void)dl_deadline_cond_init(
        &self.woken); /* without attributes that need memory it cannot fail */
    list->first = &self;
    dl_clock_wait(&self.woken, mutex, clock, deadline_ns);
    waiter_unlink(list, &self);
    (void)pthread_cond_destroy(&self.woken);
}

void dl_wait_list_wake_locked(struct dl_wait_list *list)
{
    for (struct dl_wait_list_waiter *waiter = list->first; waiter != NULL; waiter = waiter->next)
        (void)pthread_cond_broadcast(&waiter->woken);
}

/* A waiting thread. `got` of the waiter: the line, if the thread is let go on; NULL, if its request
 * was taken along. */
struct rider {
    struct dl_wait_fifo_waiter waiter;
    void *request;
    int priority;
};

int dl_wait_combine_init(struct dl_wait_combine *line)
{
    *line = (struct dl_wait_combine){.active = 0};
    return pthread_mutex_init(&line->mutex, NULL);
}

void dl_wait_combine_fini(struct dl_wait_combine *line)
{
    (void)pthread_mutex_destroy(&line->mutex);
}

static void let_go_on_locked(struct dl_wait_combine *line, struct dl_wait_fifo_waiter *waiter)
{
    dl_wait_fifo_unlink_locked(&line->fifo, waiter);
    waiter->got = line;
    line->active++;
}

/* Whether the thread was in the line until now: it makes an exchange all the same. */
static bool lose_patience(struct dl_wait_combine *line, struct dl_wait_fifo_waiter *waiter)
{
    bool linked;

    (void)pthread_mutex_lock(&line->mutex);
    linked = waiter->linked;
    if (linked)
        let_go_on_locked(line, waiter);
    (void)pthread_mutex_unlock(&line->mutex);
    return linked;
}

/* While no thread waits there is room for twice as many: a batch of two costs more than it saves.
 */
static bool has_room_locked(const struct dl_wait_combine *line, unsigned parallelism)
{
    return (line->fifo.first == NULL ? line->active / 2 : line->active) < parallelism;
}

bool dl_wait_combine_enter(struct dl_wait_combine *line, unsigned parallelism,
                           const struct dl_clock *clock, void *request, int64_t until_ns)
{
    struct rider rider = {.request = request};
    bool leads;

    (void)pthread_mutex_lock(&line->mutex);
    leads = has_room_locked(line, parallelism) || dl_wait_fifo_waiter_init(&rider.waiter) != 0;
    if (leads) {
        line->active++;
    } else {
        rider.priority = dl_own_thread_priority();
        dl_wait_fifo_join_locked(&line->fifo, &rider.waiter);
    }
    (void)pthread_mutex_unlock(&line->mutex);
    if (leads)
        return true;
    until_ns = dl_earlier(until_ns, dl_clock_now(clock) + DL_WAIT_COMBINE_PATIENCE_NS);
    if (!dl_wait_fifo_waiter_sleep(&rider.waiter, clock, until_ns) &&
        !lose_patience(line, &rider.waiter))
        (void)dl_wait_fifo_waiter_sleep(&rider.waiter, clock, DL_NEVER);
    leads = rider.waiter.got != NULL;
    dl_wait_fifo_waiter_fini(&rider.waiter);
    return leads;
}

size_t dl_wait_combine_take(struct dl_wait_combine *line, dl_wait_combine_fits_fn *fits,
                            const void *arg, void **requests, size_t most,
                            struct dl_wait_fifo_waiter **chain)
{
    struct dl_wait_fifo_waiter *next = NULL, **end = chain;
    size_t n = 0;
    int priority;

    (void)pthread_mutex_lock(&line->mutex);
    priority = line->fifo.first != NULL ? dl_own_thread_priority() : 0;
    for (struct dl_wait_fifo_waiter *at = line->fifo.first; at != NULL && n < most; at = next) {
        const struct rider *rider = (const struct rider *)(const void *)at;
        void *request = rider->request;

        next = at->next;
        if (rider->priority > priority || !fits(request, arg))
            continue;
        dl_wait_fifo_unlink_locked(&line->fifo, at);
        *end = at;
        end = &at->next;
        requests[n++] = request;
    }
    (void)pthread_mutex_unlock(&line->mutex);
    return n;
}

void dl_wait_combine_end(struct dl_wait_combine *line, unsigned parallelism,
                         struct dl_wait_fifo_waiter *chain)
{
    struct dl_wait_fifo_waiter *first = NULL;

    (void)pthread_mutex_lock(&line->mutex);
    line->active--;
    if (line->active < parallelism && line->fifo.first != NULL) {
        first = line->fifo.first;
        let_go_on_locked(line, first);
    }
    (void)pthread_mutex_unlock(&line->mutex);
    dl_wait_fifo_wake(first);
    dl_wait_fifo_wake(chain);
}
