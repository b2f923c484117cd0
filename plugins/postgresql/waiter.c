/* SPDX-License-Identifier: MIT */
#include "waiter.h"

#include <stdlib.h>

enum dlock_status pg_waiter_expect(struct pg_shared *shared, const struct dlock_request *req,
                                   const char **to, struct dlock_error *err)
{
    struct pg_listener *listener = pg_listener_get(shared);
    struct pg_slot *slot = req->attempt;
    struct pg_waiter *waiter = slot->waiter;

    if (listener != NULL && waiter == NULL)
        waiter = calloc(1, sizeof *waiter);
    if (waiter == NULL || listener == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0,
                          "no memory, no descriptor for an event, or no random bytes");
    pg_listener_tidy(listener);
    (void)pthread_mutex_lock(&listener->waiters.mutex);
    if (slot->waiter == NULL) {
        pg_shared_ref(shared);
        pg_listener_add_locked(listener, waiter, req->token);
        waiter->base.interrupted = atomic_load(&slot->stop) != 0;
        waiter->base.number = dlock_request_waiter(req);
        slot->waiter = waiter;
    }
    pg_listener_catch_up_locked(listener);
    waiter->unheard = !listener->listening;
    waiter->recheck = false;
    waiters_news_clear_locked(&waiter->base);
    *to = pg_listener_inbox_locked(listener);
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
    return DLOCK_OK;
}

bool pg_waiter_queued(struct pg_slot *slot, uint64_t counter)
{
    struct pg_waiter *waiter = slot->waiter;
    struct pg_listener *listener = waiter != NULL ? waiter->listener : NULL;
    bool hears = false;

    if (listener == NULL)
        return false;
    (void)pthread_mutex_lock(&listener->waiters.mutex);
    waiter->counter = counter;
    hears = pg_listener_hears_locked(listener);
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
    return hears;
}

void pg_waiter_free(struct pg_slot *slot)
{
    struct pg_waiter *waiter = slot->waiter;
    struct pg_shared *shared = waiter != NULL ? waiter->listener->shared : NULL;

    slot->waiter = NULL;
    if (waiter == NULL)
        return;
    pg_listener_remove(waiter);
    free(waiter);
    pg_shared_unref(shared);
}
