/* SPDX-License-Identifier: MIT */
#include "client/handle.h"
#include "hold/held.h"
#include "hold/unlock.h"
#include "session/dispatch.h"
#include "sys/error.h"

#include <stdlib.h>

static void list_append(struct dlock_client *client, struct dlock *lock)
{
    lock->prev = client->locks_last;
    lock->next = NULL;
    if (lock->prev != NULL)
        lock->prev->next = lock;
    else
        client->locks = lock;
    client->locks_last = lock;
}

static void list_remove(struct dlock_client *client, struct dlock *lock)
{
    if (lock->prev != NULL)
        lock->prev->next = lock->next;
    else
        client->locks = lock->next;
    if (lock->next != NULL)
        lock->next->prev = lock->prev;
    else
        client->locks_last = lock->prev;
}

void dl_handle_put_last_locked(struct dlock *lock)
{
    list_remove(lock->client, lock);
    list_append(lock->client, lock);
}

static enum dlock_status lock_link(struct dlock *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = DLOCK_OK;

    (void)pthread_mutex_lock(&client->mutex);
    if (client->shutdown) {
        status = dl_error(err, DLOCK_CLOSED, "the client is shut down");
    } else if (!dl_renewer_reserve(client)) {
        status = dl_error(err, DLOCK_NOMEM, "no memory for a handle");
    } else {
        list_append(client, lock);
        dl_renewer_heed(client, lock);
        client->refs++;
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

void dl_handle_mark_claim(struct dlock *lock)
{
    lock->claim->req.label = lock->terms->label;
    lock->claim->req.op_timeout_ms = lock->terms->op_timeout_ms;
}

static void lock_discard(struct dlock *lock)
{
    struct dlock_client *client = lock->client;

    (void)pthread_mutex_lock(&client->mutex);
    if (lock->name != NULL)
        dl_name_state_drop(&client->names, lock->name);
    dl_lock_options_drop(lock->terms);
    (void)pthread_mutex_unlock(&client->mutex);
    dl_claim_free(lock->claim);
    free(lock);
}

static struct dlock *lock_make(struct dlock_client *client, const void *name, size_t name_len,
                               const struct dl_settings *settings)
{
    struct dlock *lock = calloc(1, sizeof *lock);

    if (lock == NULL)
        return NULL;
    lock->client = client;
    lock->user = settings->user;
    (void)pthread_mutex_lock(&client->mutex);
    lock->name = dl_name_state_get(&client->names, name, name_len);
    lock->terms = dl_lock_options_get(&client->terms, settings);
    (void)pthread_mutex_unlock(&client->mutex);
    if (lock->name != NULL && lock->terms != NULL)
        lock->claim = dl_claim_new(client, lock->name->bytes, lock->name->len);
    if (lock->claim == NULL) {
        lock_discard(lock);
        return NULL;
    }
    lock->renewal.automatic = lock->terms->renew;
    dl_handle_mark_claim(lock);
    return lock;
}

enum dlock_status dl_handle_supported(const struct dlock *lock, enum dlock_mode mode,
                                      struct dlock_error *err)
{
    uint32_t caps = dl_session_pool_caps(&lock->client->pool);

    if (lock->terms->must_fence && (caps & DLOCK_CAP_FENCE) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "fence=on: this store gives no fencing tokens");
    if (mode == DLOCK_SHARED && (caps & DLOCK_CAP_RWLOCK) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "this store has no shared mode");
    return DLOCK_OK;
}

enum dlock_status dl_handle_new(struct dlock_client *client, const void *name, size_t name_len,
                                const struct dlock_options *options, struct dlock **out,
                                struct dlock_error *err)
{
    struct dl_settings settings;
    struct dlock *lock;
    enum dlock_status status =
        dl_settings_for_lock(&client->store->settings, options, &settings, err);

    if (status != DLOCK_OK)
        return status;
    lock = lock_make(client, name, name_len, &settings);
    if (lock == NULL)
        return dl_error(err, DLOCK_NOMEM, "no memory for a handle");
    status = dl_handle_supported(lock, DLOCK_EXCLUSIVE, err);
    if (status == DLOCK_OK)
        status = lock_link(lock, err);
    if (status != DLOCK_OK) {
        lock_discard(lock);
        return status;
    }
    *out = lock;
    return DLOCK_OK;
}

void dl_handle_changed_locked(struct dlock *lock)
{
    dl_wait_list_wake(&lock->changed);
}

void dl_handle_sleep_locked(struct dlock *lock, int64_t until_ns)
{
    dl_wait_list_join(&lock->changed, &lock->client->mutex, &lock->client->host.clock, until_ns);
}

void dl_handle_await_change_locked(struct dlock *lock)
{
    lock->queued++;
    dl_handle_sleep_locked(lock, DL_NEVER);
    if (--lock->queued == 0)
        dl_handle_changed_locked(lock);
}

void dl_handle_settle_locked(struct dlock *lock)
{
    while (lock->phase != DL_PHASE_ACQUIRING && (lock->phase != DL_PHASE_IDLE || lock->keeper_busy))
        dl_handle_await_change_locked(lock);
}

void dl_handle_idle_locked(struct dlock *lock)
{
    lock->client->acquiring -= lock->phase == DL_PHASE_ACQUIRING;
    lock->phase = DL_PHASE_IDLE;
    lock->waiting = NULL;
    dl_held_free_to_renew_locked(lock);
    if (lock->late)
        dl_renewer_wake(lock->client);
    dl_handle_changed_locked(lock);
    if (lock->client->shutdown)
        (void)pthread_cond_broadcast(&lock->client->quiet);
}

static void cancel_locked(struct dlock *lock, enum dlock_status status)
{
    struct dl_waiting *waiting = lock->waiting;

    if (waiting == NULL || waiting->cancel != DLOCK_OK)
        return;
    waiting->cancel = status;
    if (waiting->watched != NULL)
        dl_dispatch_interrupt(lock->client->plugin, waiting->watched->self, &lock->claim->req);
    dl_handle_changed_locked(lock);
}

void dl_handle_cancel(struct dlock *lock)
{
    (void)pthread_mutex_lock(&lock->client->mutex);
    lock->canceled = lock->waiting == NULL;
    cancel_locked(lock, DLOCK_CANCELED);
    (void)pthread_mutex_unlock(&lock->client->mutex);
}

void dl_handle_cancel_reset(struct dlock *lock)
{
    (void)pthread_mutex_lock(&lock->client->mutex);
    lock->canceled = false;
    (void)pthread_mutex_unlock(&lock->client->mutex);
}

void dl_handle_cancel_all_locked(struct dlock_client *client, enum dlock_status status)
{
    for (struct dlock *lock = client->locks; lock != NULL; lock = lock->next)
        cancel_locked(lock, status);
}

static void lock_unlink(struct dlock *lock)
{
    struct dlock_client *client = lock->client;

    list_remove(client, lock);
    dl_events_drop(&client->events, &lock->event);
    dl_renewer_remove(client, lock);
    dl_renewer_unreserve(client);
}

/* Until no call is made on the handle, no callback runs for it, and it is free. Mutex held. */
static void lock_wind_down_locked(struct dlock *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;

    for (;;) {
        cancel_locked(lock, DLOCK_CANCELED);
        if (lock->phase != DL_PHASE_IDLE || lock->keeper_busy || lock->in_callback ||
            lock->queued > 0)
            dl_handle_sleep_locked(lock, DL_NEVER);
        else if (client->closed ||
                 dl_lease_state(&lock->lease, dl_client_now(client)) == DLOCK_STATE_FREE)
            return;
        else
            (void)dl_unlock_whole_locked(lock, DL_NEVER, err);
    }
}

void dl_handle_free(struct dlock *lock)
{
    struct dlock_client *client = lock->client;
    struct dlock_error err;
    bool self;

    dl_error_reset(&err);
    (void)pthread_mutex_lock(&client->mutex);
    self = dl_renewer_is_self(client);
    if (!self) {
        lock_wind_down_locked(lock, &err);
        lock_unlink(lock);
        client->calls++; /* close waits for the log line */
    }
    (void)pthread_mutex_unlock(&client->mutex);
    if (self) {
        dl_log(&client->host.log, DLOCK_LOG_ERROR, "dlock_free in a loss callback: refused");
        return;
    }
    if (err.message[0] != '\0')
        dl_log(&client->host.log, DLOCK_LOG_WARNING, "unlock by dlock_free: %s", err.message);
    dl_client_leave(client);
    lock_discard(lock);
    dl_client_release(client);
}

void dl_handle_free_forked(struct dlock *lock)
{
    struct dlock_client *client = lock->client;

    dl_name_state_drop_forked(lock->name);
    dl_lock_options_drop(lock->terms);
    if (lock->claim->pinned != NULL)
        dl_session_pool_close_forked(&client->pool, lock->claim->pinned);
    dl_claim_free(lock->claim);
    free(lock);
    dl_client_release_forked(client);
}
