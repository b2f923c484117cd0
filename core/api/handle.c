/* SPDX-License-Identifier: MIT */
#include "api/handle.h"
#include "acquire/acquire.h"
#include "api/client.h"
#include "hold/deadman.h"
#include "hold/operation.h"
#include "hold/renew_schedule.h"
#include "hold/renewer.h"
#include "hold/unlock.h"
#include "sys/error.h"

#include <stdlib.h>

static struct dlock_handle *lock_make(struct dlock_client *client, const void *name,
                                      size_t name_len, const struct dl_settings *settings)
{
    struct dlock_handle *lock = calloc(1, sizeof *lock);

    if (lock == NULL)
        return NULL;
    lock->client = client;
    lock->user = settings->user;
    lock->event.kind = DLOCK_NOTICE_LOST;
    (void)pthread_mutex_lock(&client->mutex);
    lock->name = dl_name_state_ref(&client->names, name, name_len);
    if (lock->name != NULL && lock->name->stats == NULL)
        lock->name->stats =
            dl_stats_class_locked(&client->stats, lock->name->bytes, lock->name->len);
    lock->options = dl_lock_options_ref(&client->last_options, settings);
    (void)pthread_mutex_unlock(&client->mutex);
    if (lock->name != NULL && lock->options != NULL)
        lock->claim = dl_claim_new(client, lock->name->bytes, lock->name->len);
    if (lock->claim == NULL) {
        dl_handle_discard(lock);
        return NULL;
    }
    lock->renewal.automatic = lock->options->renew;
    lock->renewal.margin = settings->clock_margin;
    dl_handle_mark_claim(lock);
    return lock;
}

static enum dlock_status lock_link(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = DLOCK_OK;

    (void)pthread_mutex_lock(&client->mutex);
    if (client->shutdown) {
        status = dl_error(err, DLOCK_CLOSED, "the client is shut down");
    } else if (!dl_renew_schedule_reserve_locked(client)) {
        status = dl_error(err, DLOCK_NOMEM, "no memory for a handle");
    } else if (lock->options->kill) {
        status = dl_deadman_add_locked(lock, err);
        if (status != DLOCK_OK)
            dl_renew_schedule_unreserve_locked(client);
    }
    if (status == DLOCK_OK) {
        dl_handle_link_locked(lock);
        dl_renew_schedule_limit_locked(lock);
        client->refs++;
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

enum dlock_status dl_handle_new(struct dlock_client *client, const void *name, size_t name_len,
                                const struct dlock_options *options, struct dlock_handle **out,
                                struct dlock_error *err)
{
    struct dl_settings settings;
    struct dlock_handle *lock;
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
        dl_handle_discard(lock);
        return status;
    }
    *out = lock;
    return DLOCK_OK;
}

/* Waits until no call is made on the handle and no callback runs for it, and unlocks. */
static void wind_down_locked(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;

    for (;;) {
        dl_acquire_cancel_locked(lock, DLOCK_CANCELED);
        if (lock->phase != DL_PHASE_IDLE || lock->renewer_busy || lock->in_callback ||
            lock->queued > 0 || dl_operation_in_progress(lock->operation))
            dl_handle_sleep_locked(lock, DL_NEVER);
        else if (dl_unlock_pends_locked(lock))
            dl_unlock_give_up_locked(lock);
        else if (client->closed ||
                 dl_lease_state(&lock->lease, dl_client_now(client)) == DLOCK_STATE_FREE)
            return;
        else
            (void)dl_unlock_whole_locked(lock, DL_NEVER, err);
    }
}

void dl_handle_free(struct dlock_handle *lock)
{
    struct dlock_client *client = lock->client;
    struct dlock_error err = DLOCK_ERROR_INIT;
    char name[DL_NAME_TEXT];
    bool self;

    (void)pthread_mutex_lock(&client->mutex);
    self = dl_renewer_is_self_locked(client);
    if (!self) {
        wind_down_locked(lock, &err);
        dl_handle_unlink_locked(lock);
        dl_events_remove(&client->events, &lock->event);
        if (lock->operation != NULL)
            dl_schedule_unreserve(&client->run_queue->waiting);
        dl_operation_free_locked(lock->operation, &client->events);
        dl_renew_schedule_remove_locked(lock);
        dl_deadman_remove_locked(lock);
        dl_renew_schedule_unreserve_locked(client);
        client->calls++; /* dlock_client_close waits for the log line */
    }
    (void)pthread_mutex_unlock(&client->mutex);
    if (self) {
        dl_log(&client->host.log, DLOCK_LOG_ERROR, "dlock_free in a loss callback: refused");
        return;
    }
    if (err.message[0] != '\0')
        dl_log(&client->host.log, DLOCK_LOG_WARNING, "%s: unlock by dlock_free: %s",
               dl_name_state_text(lock->name, name), err.message);
    dl_client_call_end(client);
    dl_handle_discard(lock);
    dl_client_unref(client);
}

void dl_handle_free_after_fork(struct dlock_handle *lock)
{
    struct dlock_client *client = lock->client;

    if (lock->claim->lease_session != NULL)
        dl_session_pool_close_after_fork(&client->pool, lock->claim->lease_session);
    free(lock->kill_end);
    free(lock);
    dl_client_unref_after_fork(client);
}
