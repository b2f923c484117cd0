/* SPDX-License-Identifier: MIT */
/* Sleeping until a name is granted or worth a try. Each waiter has a condition variable of its own,
 * so that a grant or an interrupt wakes that one alone. */
#include "lib/deadline_cond.h"
#include "memory.h"

#include <string.h>

static int wake_init(struct memory_waiter *waiter)
{
    int rc = waiter->has_wake ? 0 : dl_deadline_cond_init(&waiter->wake);

    waiter->has_wake = rc == 0;
    return rc;
}

static void sleepers_join(struct memory_name *name, struct memory_waiter *waiter)
{
    waiter->next = name->sleepers;
    name->sleepers = waiter;
    waiter->sleeping = 1;
}

static void sleepers_leave(struct memory_name *name, struct memory_waiter *waiter)
{
    struct memory_waiter **link = &name->sleepers;

    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    waiter->sleeping = 0;
}

/* [WAT-4] needs no look at the last QUEUED answer here: what is seen is the store itself, and a
 * token that holds is not in the queue. [INT-2] */
static int granted(const struct memory_waiter *waiter, const struct memory_claim *claim,
                   int64_t now_ns)
{
    if (claim == NULL || claim->fence == 0 || claim->expires_ns <= now_ns || !waiter->enqueued)
        return 0;
    return !waiter->interrupted || claim->fence <= waiter->interrupt_fence;
}

/* When the next trylock can learn something new, if nobody does anything before. */
static int64_t worth_a_try_at(const struct memory_waiter *waiter, const struct memory_name *name,
                              const struct memory_claim *claim, uint32_t mode)
{
    int64_t free_ns = 0;

    if (claim == NULL)
        return waiter->enqueued ? 0 : memory_name_blocked_until(name, mode, NULL);
    if (claim->fence != 0)
        return 0;
    free_ns = memory_name_blocked_until(name, mode, claim);
    return free_ns < claim->expires_ns ? free_ns : claim->expires_ns;
}

static enum dlock_status waiter_sleep(struct memory_waiter *waiter,
                                      const struct memory_session *session,
                                      const struct dlock_request *req, struct dlock_grant *grant)
{
    struct memory_store *store = session->store;
    const struct dlock_host *host = session->host;

    if (wake_init(waiter) != 0)
        return DLOCK_UNAVAILABLE;
    waiter->token = req->token;
    for (;;) {
        struct memory_name *name = memory_name_find(store, req->name, req->name_len);
        struct memory_claim *claim = name == NULL ? NULL : memory_claim_find(name, req->token);
        int64_t now_ns = memory_store_now(store, host);
        int64_t wait_ns =
            name == NULL ? 0 : worth_a_try_at(waiter, name, claim, req->mode) - now_ns;
        int64_t left_ns = req->deadline_ns - host->now_ns(host->ctx);

        if (granted(waiter, claim, now_ns)) {
            memory_grant_fill(grant, name, claim, req->ttl_ms, now_ns);
            grant->lease_ms = claim->grant_lease_ms; /* from the last QUEUED on */
            return DLOCK_OK;
        }
        if (waiter->interrupted)
            return DLOCK_CANCELED;
        if (wait_ns <= 0)
            return DLOCK_BUSY;
        if (left_ns <= 0)
            return DLOCK_TIMEOUT;
        sleepers_join(name, waiter);
        dl_deadline_cond_wait(&waiter->wake, &store->mutex, left_ns < wait_ns ? left_ns : wait_ns);
        sleepers_leave(name, waiter);
    }
}

enum dlock_status memory_waiter_sleep(struct memory_waiter *waiter,
                                      const struct memory_session *session,
                                      const struct dlock_request *req, struct dlock_grant *grant)
{
    enum dlock_status status = waiter_sleep(waiter, session, req, grant);
    struct memory_name *name = memory_name_find(session->store, req->name, req->name_len);

    if (name != NULL) /* it may have been the last one there */
        memory_name_tidy(session->store, name);
    return status;
}

void memory_waiter_interrupt(struct memory_waiter *waiter)
{
    if (!waiter->interrupted)
        waiter->interrupt_fence = memory_fence_last();
    waiter->interrupted = 1;
    if (waiter->sleeping)
        (void)pthread_cond_signal(&waiter->wake);
}

void memory_waiter_wake(struct memory_waiter *list, const unsigned char *token)
{
    while (list != NULL && memcmp(list->token, token, DLOCK_TOKEN_SIZE) != 0)
        list = list->next;
    if (list != NULL)
        (void)pthread_cond_signal(&list->wake);
}

void memory_waiters_wake_unqueued(struct memory_waiter *list)
{
    for (; list != NULL; list = list->next) {
        if (!list->enqueued)
            (void)pthread_cond_signal(&list->wake);
    }
}

void memory_waiters_wake_all(struct memory_waiter *list)
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
