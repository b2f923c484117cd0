/* SPDX-License-Identifier: MIT */
#include "api/handle.h"
#include "hold/renew_schedule.h"
#include "sys/error.h"

#include <stdlib.h>

static struct dlock *lock_make(struct dlock_client *client, const void *name, size_t name_len,
                               const struct dl_settings *settings)
{
    struct dlock *lock = calloc(1, sizeof *lock);

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
    dl_handle_mark_claim(lock);
    return lock;
}

static enum dlock_status lock_link(struct dlock *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = DLOCK_OK;

    (void)pthread_mutex_lock(&client->mutex);
    if (client->shutdown) {
        status = dl_error(err, DLOCK_CLOSED, "the client is shut down");
    } else if (!dl_renew_schedule_reserve_locked(client)) {
        status = dl_error(err, DLOCK_NOMEM, "no memory for a handle");
    } else {
        dl_handle_link_locked(lock);
        dl_renew_schedule_limit_locked(lock);
        client->refs++;
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
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
        dl_handle_discard(lock);
        return status;
    }
    *out = lock;
    return DLOCK_OK;
}
