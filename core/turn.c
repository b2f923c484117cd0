/* SPDX-License-Identifier: MIT */
#include "turn.h"
#include "hold.h"

enum dlock_status dl_turn_take_locked(struct dlock *lock, enum dlock_mode mode, bool wait)
{
    struct dl_queue *queue = &lock->name->queue;

    if (!wait)
        return dl_queue_open_to(queue, mode) ? DLOCK_OK : DLOCK_BUSY;
    dl_queue_push(queue, &lock->turn, mode);
    lock->ready = true;
    return DLOCK_OK;
}

void dl_turn_leave_locked(struct dlock *lock)
{
    if (!lock->turn.queued)
        return;
    lock->ready = false;
    dl_queue_remove(&lock->name->queue, &lock->turn);
    dl_hold_admit_locked(lock);
}

enum dlock_status dl_turn_await(struct dlock *lock, int64_t joined_ns, int64_t deadline_ns)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = DLOCK_OK;

    (void)pthread_mutex_lock(&client->mutex);
    while (!lock->turn.admitted && lock->cancel == DLOCK_OK && dl_client_now(client) < deadline_ns)
        dl_cond_wait_until(&lock->changed, &client->mutex, &client->host.clock, deadline_ns);
    if (lock->handed)
        status = DLOCK_OK;
    else if (lock->cancel != DLOCK_OK)
        status = lock->cancel;
    else if (!lock->turn.admitted)
        status = DLOCK_TIMEOUT;
    else if (lock->name->silent_ns > joined_ns)
        status = DLOCK_UNAVAILABLE;
    if (status != DLOCK_OK)
        lock->ready = false;
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

bool dl_turn_look(struct dlock *lock, bool go, enum dlock_status *cancel)
{
    bool handed;

    (void)pthread_mutex_lock(&lock->client->mutex);
    handed = lock->handed;
    lock->handed = false;
    if (handed || go)
        lock->ready = false;
    *cancel = lock->cancel;
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return handed;
}

bool dl_turn_held_here(struct dlock *lock)
{
    bool held;

    (void)pthread_mutex_lock(&lock->client->mutex);
    held = lock->turn.queued && dl_name_held_against(lock->name, lock->turn.mode);
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return held;
}

enum dlock_status dl_turn_park(struct dlock *lock, int64_t until_ns, bool held, bool ready)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = DLOCK_TIMEOUT;

    (void)pthread_mutex_lock(&client->mutex);
    lock->ready = held && ready;
    while (status == DLOCK_TIMEOUT && dl_client_now(client) < until_ns) {
        if (lock->handed)
            status = DLOCK_OK;
        else if (lock->cancel != DLOCK_OK)
            status = DLOCK_CANCELED;
        else if (held && !dl_name_held_against(lock->name, lock->turn.mode))
            status = DLOCK_BUSY;
        else
            dl_cond_wait_until(&lock->changed, &client->mutex, &client->host.clock, until_ns);
    }
    lock->ready = false;
    if (lock->handed)
        status = DLOCK_OK;
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}
