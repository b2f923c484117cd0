/* SPDX-License-Identifier: MIT */
/* Sleeping until a name is worth a try. Each waiter has a condition variable of its own, so that
 * an interrupt, and later the grant to the head of a queue, wakes that one alone. */
#include "memory.h"

#include <time.h>

static int wake_init(struct memory_waiter *waiter)
{
    pthread_condattr_t attr;
    int rc = 0;

    if (waiter->has_wake)
        return 0;
    rc = pthread_condattr_init(&attr);
    if (rc != 0)
        return rc;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(&waiter->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    waiter->has_wake = rc == 0;
    return rc;
}

/* Condition variables count neither suspend nor a test's clock: one sleep is short, and the caller
 * reads the clocks again. */
static void nap(struct memory_waiter *waiter, pthread_mutex_t *mutex, int64_t ns)
{
    struct timespec until;
    int64_t wake = 0;

    if (ns > MEMORY_NS_PER_S)
        ns = MEMORY_NS_PER_S;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    wake = until.tv_nsec + ns;
    until.tv_sec += (time_t)(wake / MEMORY_NS_PER_S);
    until.tv_nsec = (long)(wake % MEMORY_NS_PER_S);
    (void)pthread_cond_timedwait(&waiter->wake, mutex, &until);
}

static void waiter_join(struct memory_name *name, struct memory_waiter *waiter)
{
    waiter->next = name->waiters;
    name->waiters = waiter;
    waiter->sleeping = 1;
}

static void waiter_leave(struct memory_name *name, struct memory_waiter *waiter)
{
    struct memory_waiter **link = &name->waiters;

    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    waiter->sleeping = 0;
}

enum dlock_status memory_waiter_sleep(struct memory_waiter *waiter,
                                      const struct memory_session *session,
                                      const struct dlock_request *req)
{
    struct memory_store *store = session->store;
    const struct dlock_host *host = session->host;

    if (wake_init(waiter) != 0)
        return DLOCK_UNAVAILABLE;
    while (!waiter->interrupted) {
        struct memory_name *name = memory_name_find(store, req->name, req->name_len);
        int64_t left = req->deadline_ns - host->now_ns(host->ctx);
        int64_t lease = name == NULL ? 0 : name->expires_ns - memory_store_now(store, host);

        if (lease <= 0)
            return DLOCK_BUSY;
        if (left <= 0)
            return DLOCK_TIMEOUT;
        waiter_join(name, waiter);
        nap(waiter, &store->mutex, left < lease ? left : lease);
        waiter_leave(name, waiter);
    }
    return DLOCK_CANCELED;
}

void memory_waiter_interrupt(struct memory_waiter *waiter)
{
    waiter->interrupted = 1;
    if (waiter->sleeping)
        (void)pthread_cond_signal(&waiter->wake);
}

void memory_waiters_wake(struct memory_waiter *list)
{
    for (; list != NULL; list = list->next)
        (void)pthread_cond_signal(&list->wake);
}

void memory_waiter_fini(struct memory_waiter *waiter)
{
    if (waiter->has_wake)
        (void)pthread_cond_destroy(&waiter->wake);
    waiter->has_wake = 0;
}
