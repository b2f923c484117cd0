/* SPDX-License-Identifier: MIT */
#include "acquire/local_waiter.h"
#include "hold/held.h"

static enum dlock_status timed_out(const struct dl_name_state *name)
{
    if (name->failure == DLOCK_OK)
        return DLOCK_TIMEOUT;
    return name->failure == DLOCK_NO_QUORUM ? DLOCK_NO_QUORUM : DLOCK_UNAVAILABLE;
}

static enum dlock_status admission_await_locked(struct dlock *lock, int64_t deadline_ns,
                                                int64_t *now_ns)
{
    struct dl_waiting *waiting = lock->waiting;
    enum dlock_status status = DLOCK_OK;

    while (!waiting->waiter.admitted && waiting->cancel == DLOCK_OK && *now_ns < deadline_ns) {
        dl_handle_sleep_locked(lock, deadline_ns);
        *now_ns = dl_client_now(lock->client);
    }
    if (waiting->handed)
        status = DLOCK_OK;
    else if (waiting->cancel != DLOCK_OK)
        status = waiting->cancel;
    else if (!waiting->waiter.admitted)
        status = timed_out(lock->name);
    if (status != DLOCK_OK)
        waiting->ready = false;
    return status;
}

enum dlock_status dl_local_waiter_enter_locked(struct dlock *lock, enum dlock_mode mode, bool wait,
                                               int64_t deadline_ns, int64_t *now_ns)
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
    return waiting->waiter.admitted ? DLOCK_OK : admission_await_locked(lock, deadline_ns, now_ns);
}

void dl_local_waiter_unlink_locked(struct dlock *lock)
{
    struct dl_waiting *waiting = lock->waiting;

    if (!waiting->waiter.queued)
        return;
    waiting->ready = false;
    dl_local_queue_remove(&lock->name->queue, &waiting->waiter);
    dl_held_admit_locked(lock);
}

bool dl_local_waiter_recheck(struct dlock *lock, bool go, enum dlock_status *cancel)
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

bool dl_local_waiter_held_here(struct dlock *lock)
{
    const struct dl_local_waiter *waiter = &lock->waiting->waiter;
    bool held;

    (void)pthread_mutex_lock(&lock->client->mutex);
    held = waiter->queued && dl_name_state_held_against(lock->name, waiter->mode);
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return held;
}

enum dlock_status dl_local_waiter_park(struct dlock *lock, int64_t until_ns, bool held, bool ready)
{
    struct dlock_client *client = lock->client;
    struct dl_waiting *waiting = lock->waiting;
    enum dlock_status status = DLOCK_TIMEOUT;

    (void)pthread_mutex_lock(&client->mutex);
    waiting->ready = held && ready;
    while (status == DLOCK_TIMEOUT && dl_client_now(client) < until_ns) {
        if (waiting->handed)
            status = DLOCK_OK;
        else if (waiting->cancel != DLOCK_OK)
            status = DLOCK_CANCELED;
        else if (held && !dl_name_state_held_against(lock->name, waiting->waiter.mode))
            status = DLOCK_BUSY;
        else
            dl_handle_sleep_locked(lock, until_ns);
    }
    waiting->ready = false;
    if (waiting->handed)
        status = DLOCK_OK;
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}
