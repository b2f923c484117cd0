/* SPDX-License-Identifier: MIT */
#include "acquire/cancel.h"
#include "hold/operation.h"
#include "session/dispatch.h"

void dl_cancel_locked(struct dlock_handle *lock, enum dlock_status status)
{
    struct dl_waiting *waiting = lock->waiting;

    if (waiting == NULL || waiting->cancel != DLOCK_OK)
        return;
    waiting->cancel = status;
    if (waiting->watched != NULL)
        dl_dispatch_interrupt(lock->client->plugin, waiting->watched->self, &lock->claim->req);
    dl_handle_changed_locked(lock);
}

void dl_cancel(struct dlock_handle *lock)
{
    (void)pthread_mutex_lock(&lock->client->mutex);
    lock->canceled |= lock->waiting == NULL && !dl_operation_under_way(lock->operation);
    dl_cancel_locked(lock, DLOCK_CANCELED);
    (void)pthread_mutex_unlock(&lock->client->mutex);
}

void dl_cancel_reset(struct dlock_handle *lock)
{
    (void)pthread_mutex_lock(&lock->client->mutex);
    lock->canceled = false;
    (void)pthread_mutex_unlock(&lock->client->mutex);
}

void dl_cancel_all_locked(struct dlock_client *client, enum dlock_status status)
{
    for (struct dlock_handle *lock = client->locks; lock != NULL; lock = lock->next)
        dl_cancel_locked(lock, status);
}
