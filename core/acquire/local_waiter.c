/* SPDX-License-Identifier: MIT */
#include "acquire/local_waiter.h"
#include "hold/held.h"

static enum dlock_status timed_out(const struct dl_name_state *name)
{
    if (name->failure == DLOCK_OK)
        return DLOCK_TIMEOUT;
    return name->failure == DLOCK_NO_QUORUM ? DLOCK_NO_QUORUM : DLOCK_UNAVAILABLE;
}

bool dl_local_waiter_admission_locked(struct dlock_handle *lock, int64_t deadline_ns,
                                      int64_t now_ns, enum dlock_status *status)
{
    struct dl_waiting *waiting = lock->waiting;

    *status = DLOCK_OK;
    if (!waiting->waiter.admitted && waiting->cancel == DLOCK_OK && now_ns < deadline_ns)
        return false;
    if (waiting->handed)
        return true;
    if (waiting->cancel != DLOCK_OK)
        *status = waiting->cancel;
    else if (!waiting->waiter.admitted)
        *status = timed_out(lock->name);
    if (*status != DLOCK_OK)
        waiting->ready = false;
    return true;
}

enum dlock_status dl_local_waiter_join_locked(struct dlock_handle *lock, enum dlock_mode mode,
                                              bool wait)
{
    struct dl_waiting *waiting = lock->waiting;
    struct dl_local_queue *queue = &lock->name->queue;

    if (waiting->cancel != DLOCK_OK)
        return waiting->cancel;
    if (!wait)
        return dl_local_queue_open_to(queue, mode) ? DLOCK_OK : DLOCK_BUSY;
    if (queue->first == NULL)
        lock->name->failure = DLOCK_OK;
    dl_local_queue_push(queue, &waiting->waiter, mode);
    waiting->ready = true;
    return DLOCK_OK;
}

enum dlock_status dl_local_waiter_enter_locked(struct dlock_handle *lock, enum dlock_mode mode,
                                               bool wait, int64_t deadline_ns, int64_t *now_ns)
{
    enum dlock_status status = dl_local_waiter_join_locked(lock, mode, wait);

    if (status != DLOCK_OK || !wait || lock->waiting->waiter.admitted)
        return status;
    while (!dl_local_waiter_admission_locked(lock, deadline_ns, *now_ns, &status)) {
        dl_handle_sleep_locked(lock, deadline_ns);
        *now_ns = dl_client_now(lock->client);
    }
    return status;
}

void dl_local_waiter_unlink_locked(struct dlock_handle *lock)
{
    struct dl_waiting *waiting = lock->waiting;

    if (!waiting->waiter.queued)
        return;
    waiting->ready = false;
    dl_local_queue_remove(&lock->name->queue, &waiting->waiter);
    dl_held_admit_locked(lock);
}

bool dl_local_waiter_recheck(struct dlock_handle *lock, bool go, enum dlock_status *cancel)
{
    struct dl_waiting *waiting = lock->waiting;
    bool handed;

    (void)pthread_mutex_lock(&lock->client->mutex);
    handed = waiting->handed;
    waiting->handed = false;
    if (handed || go)
        waiting->ready = false;
    *cancel = waiting->cancel;
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return handed;
}

bool dl_local_waiter_held_here(struct dlock_handle *lock)
{
    const struct dl_local_waiter *waiter = &lock->waiting->waiter;
    bool held;

    (void)pthread_mutex_lock(&lock->client->mutex);
    held = waiter->queued && lock->options->limit == 1 &&
           dl_name_state_held_against(lock->name, waiter->mode);
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return held;
}

void dl_local_waiter_park_begin_locked(struct dlock_handle *lock, bool held, bool ready)
{
    lock->waiting->ready = held && ready;
}

bool dl_local_waiter_park_over_locked(struct dlock_handle *lock, int64_t until_ns, bool held,
                                      enum dlock_status *status)
{
    struct dl_waiting *waiting = lock->waiting;

    if (waiting->handed)
        *status = DLOCK_OK;
    else if (dl_client_now(lock->client) >= until_ns)
        *status = DLOCK_TIMEOUT;
    else if (waiting->cancel != DLOCK_OK)
        *status = DLOCK_CANCELED;
    else if (held && !dl_name_state_held_against(lock->name, waiting->waiter.mode))
        *status = DLOCK_BUSY;
    else
        return false;
    waiting->ready = false;
    return true;
}

enum dlock_status dl_local_waiter_park(struct dlock_handle *lock, int64_t until_ns, bool held,
                                       bool ready)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = DLOCK_TIMEOUT;

    (void)pthread_mutex_lock(&client->mutex);
    dl_local_waiter_park_begin_locked(lock, held, ready);
    while (!dl_local_waiter_park_over_locked(lock, until_ns, held, &status))
        dl_handle_sleep_locked(lock, until_ns);
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}
