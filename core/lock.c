/* SPDX-License-Identifier: MIT */
#include "lock.h"
#include "dispatch.h"
#include "error.h"
#include "hold.h"

#include <stdlib.h>
#include <string.h>

/* An unlock that failed is repeated within its op_timeout after this pause. */
#define UNLOCK_PAUSE_MS 10

static size_t round_up(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* The handle, its name, its slot and its label in one block. */
static struct dlock *lock_alloc(const struct dlock_client *client, const void *name,
                                size_t name_len, const char *label)
{
    size_t name_at = round_up(sizeof(struct dlock));
    size_t slot_at = name_at + round_up(name_len);
    size_t label_at = slot_at + round_up(client->plugin->ops.slot_size);
    size_t label_size = label == NULL ? 0 : strlen(label) + 1;
    char *block = aligned_alloc(16, round_up(label_at + label_size));
    struct dlock *lock = (struct dlock *)(void *)block;

    if (block == NULL)
        return NULL;
    memset(block, 0, label_at);
    memcpy(block + name_at, name, name_len);
    lock->req.name = (unsigned char *)block + name_at;
    lock->req.name_len = (uint32_t)name_len;
    lock->req.slot = client->plugin->ops.slot_size > 0 ? block + slot_at : NULL;
    lock->req.label = client->label;
    if (label != NULL) {
        memcpy(block + label_at, label, label_size);
        lock->req.label = block + label_at;
    }
    return lock;
}

static enum dlock_status lock_link(struct dlock *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = DLOCK_OK;

    (void)pthread_mutex_lock(&client->mutex);
    if (client->shutdown) {
        status = dl_error(err, DLOCK_CLOSED, "the client is shut down");
    } else if (!dl_schedule_reserve(&client->keeper.schedule)) {
        status = dl_error(err, DLOCK_NOMEM, "no memory for a handle");
    } else {
        lock->next = client->locks;
        if (lock->next != NULL)
            lock->next->prev = lock;
        client->locks = lock;
        client->refs++;
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

enum dlock_status dl_lock_new(struct dlock_client *client, const void *name, size_t name_len,
                              const struct dlock_options *options, struct dlock **out,
                              struct dlock_error *err)
{
    struct dl_settings settings;
    struct dlock *lock;
    char *label = NULL;
    enum dlock_status status =
        dl_settings_for_lock(&client->store->settings, options, &settings, err);

    if (status != DLOCK_OK)
        return status;
    if (settings.fence == DLOCK_ON && (dl_pool_caps(&client->pool) & DLOCK_CAP_FENCE) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "fence=on: this store gives no fencing tokens");
    if (strcmp(settings.label, client->store->settings.label) != 0) {
        label = dl_client_label(settings.label);
        if (label == NULL)
            return dl_error(err, DLOCK_NOMEM, "no memory for a handle");
    }
    lock = lock_alloc(client, name, name_len, label);
    free(label);
    if (lock == NULL || dl_cond_init(&lock->changed) != 0) {
        free(lock);
        return dl_error(err, DLOCK_NOMEM, "no memory for a handle");
    }
    lock->client = client;
    lock->wait_ms = settings.wait_ms;
    lock->op_timeout_ms = dl_settings_op_timeout_ms(&settings);
    lock->max_hold_ms = settings.max_hold_ms;
    lock->poll_max_ms = settings.poll_max_ms;
    lock->auto_renew = settings.renew != DLOCK_OFF;
    lock->must_fence = settings.fence == DLOCK_ON;
    lock->user = settings.user;
    lock->req.op_timeout_ms = lock->op_timeout_ms;
    lock->ttl_ms = settings.ttl_ms;
    status = lock_link(lock, err);
    if (status != DLOCK_OK) {
        (void)pthread_cond_destroy(&lock->changed);
        free(lock);
        return status;
    }
    *out = lock;
    return DLOCK_OK;
}

/* Waits for a change; dlock_free waits for whoever does. */
static void lock_queue_locked(struct dlock *lock)
{
    lock->queued++;
    (void)pthread_cond_wait(&lock->changed, &lock->client->mutex);
    if (--lock->queued == 0)
        (void)pthread_cond_broadcast(&lock->changed);
}

void dl_lock_settle_locked(struct dlock *lock)
{
    while (lock->phase != DL_PHASE_ACQUIRING && (lock->phase != DL_PHASE_IDLE || lock->keeper_busy))
        lock_queue_locked(lock);
}

void dl_lock_idle_locked(struct dlock *lock)
{
    lock->phase = DL_PHASE_IDLE;
    (void)pthread_cond_broadcast(&lock->changed);
    if (lock->client->shutdown)
        (void)pthread_cond_broadcast(&lock->client->quiet);
}

enum dlock_status dl_lock_session(struct dlock *lock, enum dl_use use, int64_t deadline_ns,
                                  struct dl_session **out, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status;

    if (!dl_client_has(client, DLOCK_CAP_SESSION))
        return dl_pool_take(&client->pool, use, deadline_ns, out, err);
    if (lock->pinned == NULL) {
        if (use != DL_USE_ACQUIRE)
            return dl_error(err, DLOCK_LOST, "the session that held the lock is gone");
        status = dl_pool_take(&client->pool, DL_USE_PIN, deadline_ns, &lock->pinned, err);
        if (status != DLOCK_OK)
            return status;
    }
    *out = lock->pinned;
    return DLOCK_OK;
}

void dl_lock_session_put(struct dlock *lock, enum dl_use use, struct dl_session *session,
                         enum dlock_status status)
{
    if (session != lock->pinned)
        dl_pool_put(&lock->client->pool, use, session, status);
}

void dl_lock_unpin(struct dlock *lock, enum dlock_status status)
{
    struct dl_session *session = lock->pinned;

    if (session == NULL)
        return;
    lock->pinned = NULL;
    /* [SES-1]: a session whose lock did not end cleanly serves nobody else. */
    dl_pool_put(&lock->client->pool, DL_USE_PIN, session,
                status == DLOCK_OK || status == DLOCK_BUSY ? DLOCK_OK : DLOCK_UNKNOWN);
}

bool dl_lock_is_left_locked(struct dlock *lock, int64_t now_ns)
{
    return lock->phase == DL_PHASE_IDLE && !lock->keeper_busy && lock->pinned != NULL &&
           dl_lease_state(&lock->lease, now_ns) == DLOCK_STATE_LOST;
}

void dl_lock_forget(struct dlock *lock)
{
    struct dlock_client *client = lock->client;
    struct dl_session *session;

    if (!lock->slot_used)
        return;
    lock->slot_used = false;
    if (client->plugin->ops.forget == NULL)
        return;
    session = lock->pinned != NULL ? lock->pinned : dl_pool_take_idle(&client->pool);
    dl_dispatch_forget(client->plugin, session == NULL ? NULL : session->self, &lock->req);
    if (session != NULL)
        dl_lock_session_put(lock, DL_USE_HOLDER, session, DLOCK_OK);
    if (lock->req.slot != NULL) /* for an unlock that is repeated */
        memset(lock->req.slot, 0, client->plugin->ops.slot_size);
}

static enum dlock_status release_send(struct dlock *lock, enum dl_use use,
                                      struct dl_session *session, uint32_t flags,
                                      int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status;

    lock->req.flags = flags;
    lock->req.deadline_ns = deadline_ns;
    lock->slot_used = false;
    status = dl_dispatch_unlock(lock->client->plugin, session->self, &lock->req, err);
    dl_lock_session_put(lock, use, session, status);
    return status;
}

void dl_lock_give_back(struct dlock *lock, enum dl_use use, int64_t deadline_ns)
{
    struct dl_session *session;
    struct dlock_error ignored;

    dl_error_reset(&ignored);
    if (!dl_client_has(lock->client, DLOCK_CAP_SESSION) &&
        dl_lock_session(lock, use, deadline_ns, &session, &ignored) == DLOCK_OK)
        (void)release_send(lock, use, session, DLOCK_REQ_CLEANUP, deadline_ns, &ignored);
    dl_lock_forget(lock);
    dl_lock_unpin(lock, DLOCK_UNKNOWN);
}

/* One release by token and its repetitions until deadline_ns. */
static enum dlock_status unlock_exchange(struct dlock *lock, int64_t deadline_ns, bool gone_is_ok,
                                         struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    int64_t pause_ns = UNLOCK_PAUSE_MS * DL_NS_PER_MS;
    bool uncertain = false;

    for (;;) {
        struct dl_session *session;
        enum dlock_status status = dl_lock_session(lock, DL_USE_HOLDER, deadline_ns, &session, err);

        if (status != DLOCK_OK) {
            dl_lock_forget(lock);
            return uncertain ? DLOCK_UNKNOWN : status;
        }
        status = release_send(lock, DL_USE_HOLDER, session, 0, deadline_ns, err);
        if (status == DLOCK_LOST && (gone_is_ok || uncertain))
            return DLOCK_OK;
        if (status == DLOCK_UNKNOWN)
            uncertain = true;
        else if (status != DLOCK_UNAVAILABLE && status != DLOCK_NO_QUORUM)
            return status;
        if (lock->pinned != NULL || dl_client_now(client) + pause_ns >= deadline_ns)
            return uncertain ? DLOCK_UNKNOWN : status;
        dl_clock_pause(pause_ns);
        if (dl_client_now(client) >= deadline_ns) /* it took longer */
            return uncertain ? DLOCK_UNKNOWN : status;
    }
}

/* Ends the claim. NOT_HELD, LOST (acknowledged); OK: the store has to be told. With the mutex held.
 */
static enum dlock_status unlock_begin(struct dlock *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;

    if (client->closed)
        return dl_error(err, DLOCK_CLOSED, "the client is closed");
    while (lock->phase != DL_PHASE_IDLE && lock->phase != DL_PHASE_ACQUIRING)
        lock_queue_locked(lock);
    if (lock->phase == DL_PHASE_ACQUIRING) /* also when it began while we queued */
        return dl_error(err, DLOCK_ALREADY, "another thread is acquiring with this handle");
    switch (dl_lease_state(&lock->lease, dl_client_now(client))) {
    case DLOCK_STATE_FREE:
        if (!lock->repeatable)
            return dl_error(err, DLOCK_NOT_HELD, "the handle does not hold the lock");
        lock->phase = DL_PHASE_RELEASING;
        return DLOCK_OK;
    case DLOCK_STATE_LOST:
        lock->phase = DL_PHASE_RELEASING;
        dl_hold_end_locked(lock);
        dl_events_drop(&client->events, &lock->event);
        lock->told = true;
        while (lock->keeper_busy)
            (void)pthread_cond_wait(&lock->changed, &client->mutex);
        return dl_error(err, DLOCK_LOST, "the lock was lost");
    default:
        lock->phase = DL_PHASE_RELEASING;
        dl_hold_end_locked(lock);
        while (lock->keeper_busy) /* C14: the renewal ends before the release begins */
            (void)pthread_cond_wait(&lock->changed, &client->mutex);
        return DLOCK_OK;
    }
}

enum dlock_status dl_lock_release_locked(struct dlock *lock, int64_t deadline_ns,
                                         struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = unlock_begin(lock, err);
    bool gone_is_ok = lock->repeatable;

    if (status != DLOCK_OK && status != DLOCK_LOST)
        return status;
    (void)pthread_mutex_unlock(&client->mutex);
    if (status == DLOCK_OK)
        status = unlock_exchange(lock, deadline_ns, gone_is_ok, err);
    else
        dl_lock_forget(lock);
    dl_lock_unpin(lock, status);
    (void)pthread_mutex_lock(&client->mutex);
    lock->repeatable =
        status != DLOCK_OK && status != DLOCK_LOST && !dl_client_has(client, DLOCK_CAP_SESSION);
    dl_lock_idle_locked(lock);
    return status;
}

enum dlock_status dl_lock_unlock(struct dlock *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    int64_t deadline_ns = dl_clock_after_ms(dl_client_now(client), lock->op_timeout_ms);
    enum dlock_status status;

    (void)pthread_mutex_lock(&client->mutex);
    status = dl_lock_release_locked(lock, deadline_ns, err);
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

static enum dlock_status renew_begin(struct dlock *lock, int64_t ttl_ms, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;

    if (client->closed)
        return dl_error(err, DLOCK_CLOSED, "the client is closed");
    dl_lock_settle_locked(lock);
    switch (dl_lease_state(&lock->lease, dl_client_now(client))) {
    case DLOCK_STATE_FREE:
        return dl_error(err, DLOCK_NOT_HELD, "the handle does not hold the lock");
    case DLOCK_STATE_LOST:
        return dl_error(err, DLOCK_LOST, "the lock was lost");
    default:
        lock->phase = DL_PHASE_RENEWING;
        if (ttl_ms != 0)
            lock->req.ttl_ms = ttl_ms;
        return DLOCK_OK;
    }
}

enum dlock_status dl_lock_renew(struct dlock *lock, int64_t ttl_ms, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    int64_t deadline_ns = dl_clock_after_ms(dl_client_now(client), lock->op_timeout_ms);
    struct dlock_lease_op op = {.req = &lock->req};
    struct dl_session *session;
    enum dlock_status status;
    int64_t sent_ns;
    bool stale;

    (void)pthread_mutex_lock(&client->mutex);
    status = renew_begin(lock, ttl_ms, err);
    (void)pthread_mutex_unlock(&client->mutex);
    if (status != DLOCK_OK)
        return status;

    op.status = dl_lock_session(lock, DL_USE_HOLDER, deadline_ns, &session, err);
    sent_ns = dl_client_now(client);
    if (op.status == DLOCK_OK) {
        lock->req.flags = 0;
        lock->req.deadline_ns = dl_lease_until_ns(&lock->lease); /* [REN-5] */
        dl_dispatch_renew(client->plugin, session->self, &op, 1, deadline_ns, err);
        dl_lock_session_put(lock, DL_USE_HOLDER, session, op.status);
    }

    (void)pthread_mutex_lock(&client->mutex);
    status =
        dl_hold_renewed_locked(lock, sent_ns, dl_client_now(client), op.status, &op.grant, &stale);
    (void)pthread_mutex_unlock(&client->mutex);
    if (stale)
        dl_lock_give_back(lock, DL_USE_HOLDER,
                          dl_clock_after_ms(dl_client_now(client), lock->op_timeout_ms));
    if (status == DLOCK_LOST)
        (void)dl_error(err, status, "the lock was lost");
    (void)pthread_mutex_lock(&client->mutex);
    dl_lock_idle_locked(lock);
    if (status == DLOCK_LOST && lock->pinned != NULL)
        dl_keeper_wake(client); /* to end the session */
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

static void cancel_locked(struct dlock *lock, enum dlock_status status)
{
    if (lock->phase != DL_PHASE_ACQUIRING || lock->cancel != DLOCK_OK)
        return;
    lock->cancel = status;
    if (lock->watched != NULL)
        dl_dispatch_interrupt(lock->client->plugin, lock->watched->self, &lock->req);
    (void)pthread_cond_broadcast(&lock->changed);
}

void dl_lock_cancel(struct dlock *lock, enum dlock_status status)
{
    (void)pthread_mutex_lock(&lock->client->mutex);
    cancel_locked(lock, status);
    (void)pthread_mutex_unlock(&lock->client->mutex);
}

void dl_lock_cancel_all_locked(struct dlock_client *client, enum dlock_status status)
{
    for (struct dlock *lock = client->locks; lock != NULL; lock = lock->next)
        cancel_locked(lock, status);
}

static void lock_unlink(struct dlock *lock)
{
    struct dlock_client *client = lock->client;

    if (lock->prev != NULL)
        lock->prev->next = lock->next;
    else
        client->locks = lock->next;
    if (lock->next != NULL)
        lock->next->prev = lock->prev;
    dl_events_drop(&client->events, &lock->event);
    dl_keeper_remove(client, lock);
    dl_schedule_unreserve(&client->keeper.schedule);
}

static void lock_destroy(struct dlock *lock)
{
    explicit_bzero(lock->req.token, sizeof lock->req.token);
    free(lock);
}

/* Until no call is made on the handle, no callback runs for it, and it is free. Mutex held. */
static void lock_wind_down_locked(struct dlock *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;

    for (;;) {
        cancel_locked(lock, DLOCK_CANCELED);
        if (lock->phase != DL_PHASE_IDLE || lock->keeper_busy || lock->in_callback ||
            lock->queued > 0)
            (void)pthread_cond_wait(&lock->changed, &client->mutex);
        else if (client->closed ||
                 dl_lease_state(&lock->lease, dl_client_now(client)) == DLOCK_STATE_FREE)
            return;
        else
            (void)dl_lock_release_locked(
                lock, dl_clock_after_ms(dl_client_now(client), lock->op_timeout_ms), err);
    }
}

void dl_lock_free(struct dlock *lock)
{
    struct dlock_client *client = lock->client;
    struct dlock_error err;
    bool self;

    dl_error_reset(&err);
    (void)pthread_mutex_lock(&client->mutex);
    self = dl_keeper_is_self(client);
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
    (void)pthread_cond_destroy(&lock->changed);
    lock_destroy(lock);
    dl_client_release(client);
}

void dl_lock_free_forked(struct dlock *lock)
{
    struct dlock_client *client = lock->client;

    /* Not the condition variable: it waits for its sleepers, who stayed in the parent. */
    lock_destroy(lock);
    dl_client_release_forked(client);
}
