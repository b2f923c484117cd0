/* SPDX-License-Identifier: MIT */
#include "acquire.h"
#include "attempt.h"
#include "dispatch.h"
#include "error.h"
#include "hold.h"

#include <string.h>

struct acquire {
    struct dlock *lock;
    struct dlock_client *client;
    struct dlock_error *err;
    struct dl_attempt attempt;
    struct dlock_grant grant; /* of the last trylock or lock */
    bool begun;               /* the request has a token that is not used up */
};

/* With the mutex held. */
static enum dlock_status acquire_begin(struct dlock *lock, enum dlock_mode mode,
                                       struct dlock_error *err)
{
    struct dlock_client *client = lock->client;

    if (client->shutdown)
        return dl_error(err, DLOCK_CLOSED, "the client is shut down");
    if (mode == DLOCK_SHARED && (dl_pool_caps(&client->pool) & DLOCK_CAP_RWLOCK) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "this store has no shared mode");
    if (lock->phase != DL_PHASE_IDLE)
        return dl_error(err, DLOCK_ALREADY, "another thread is using this handle");
    switch (dl_lease_state(&lock->lease, dl_client_now(client))) {
    case DLOCK_STATE_FREE:
        break;
    case DLOCK_STATE_LOST:
        return dl_error(err, DLOCK_LOST, "the lock was lost; acknowledge it by dlock_unlock");
    default:
        return dl_error(err, DLOCK_ALREADY, "this handle holds the lock");
    }
    if (dl_keeper_start(client, err) != DLOCK_OK)
        return DLOCK_NOMEM;
    lock->phase = DL_PHASE_ACQUIRING;
    lock->req.mode = mode;
    lock->req.ttl_ms = lock->ttl_ms; /* the keeper reads it of any handle */
    lock->cancel = DLOCK_OK;
    lock->repeatable = false;
    return DLOCK_OK;
}

static uint64_t jitter(struct acquire *a)
{
    uint64_t random;

    (void)pthread_mutex_lock(&a->client->mutex);
    random = dl_client_random(a->client);
    (void)pthread_mutex_unlock(&a->client->mutex);
    return random;
}

/* A new token and an empty slot, unless the attempt goes on. */
static enum dlock_status request_begin(struct acquire *a)
{
    struct dlock_request *req = &a->lock->req;
    unsigned char token[DLOCK_TOKEN_SIZE];

    if (a->begun)
        return DLOCK_OK;
    if (a->client->host.random(token, sizeof token) != 0)
        return dl_error(a->err, DLOCK_INTERNAL, "no random bytes for an owner token");
    (void)pthread_mutex_lock(&a->client->mutex); /* dlock_token may be reading */
    memcpy(req->token, token, sizeof req->token);
    (void)pthread_mutex_unlock(&a->client->mutex);
    if (req->slot != NULL)
        memset(req->slot, 0, a->client->plugin->ops.slot_size);
    a->lock->slot_used = true;
    a->begun = true;
    return DLOCK_OK;
}

/* OK, or what to return instead of waiting. */
static enum dlock_status cancel_status(struct acquire *a)
{
    enum dlock_status cancel;

    (void)pthread_mutex_lock(&a->client->mutex);
    cancel = a->lock->cancel;
    (void)pthread_mutex_unlock(&a->client->mutex);
    return cancel;
}

/* Where dlock_cancel finds the session to interrupt. OK, or what to return instead of waiting. */
static enum dlock_status watched_set(struct acquire *a, struct dl_session *session)
{
    enum dlock_status cancel;

    (void)pthread_mutex_lock(&a->client->mutex);
    cancel = a->lock->cancel;
    a->lock->watched = cancel == DLOCK_OK ? session : NULL;
    (void)pthread_mutex_unlock(&a->client->mutex);
    return cancel;
}

static enum dlock_status fence_check(struct acquire *a)
{
    if (!a->lock->must_fence || a->grant.fence != 0 || a->lock->req.mode == DLOCK_SHARED)
        return DLOCK_OK;
    return dl_error(a->err, DLOCK_INTERNAL, "fence=on: the store granted without a token");
}

static enum dlock_status call_trylock(struct acquire *a, struct dl_session *session)
{
    enum dlock_status status = dl_dispatch_trylock(a->client->plugin, session->self, session->caps,
                                                   &a->lock->req, &a->grant, a->err);

    return status == DLOCK_OK ? fence_check(a) : status;
}

static enum dlock_status call_lock(struct acquire *a, struct dl_session *session)
{
    enum dlock_status status = watched_set(a, session);

    if (status != DLOCK_OK)
        return status;
    status = dl_dispatch_lock(a->client->plugin, session->self, session->caps, &a->lock->req,
                              &a->grant, a->err);
    (void)watched_set(a, NULL);
    return status == DLOCK_OK ? fence_check(a) : status;
}

/* The attempt is over, without an unlock. */
static void abandon(struct acquire *a, enum dlock_status status)
{
    dl_lock_forget(a->lock);
    a->begun = false;
    dl_lock_unpin(a->lock, status);
}

static void step_try(struct acquire *a)
{
    struct dlock_request *req = &a->lock->req;
    bool blocks = a->attempt.step == DL_STEP_LOCK;
    struct dl_session *session = NULL;
    int64_t sent_ns;
    enum dlock_status status =
        dl_lock_session(a->lock, DL_USE_ACQUIRE,
                        blocks ? dl_attempt_exchange_until(&a->attempt, dl_client_now(a->client))
                               : a->attempt.until_ns,
                        &session, a->err);

    if (status == DLOCK_OK) {
        status = request_begin(a);
        if (status != DLOCK_OK)
            dl_lock_session_put(a->lock, DL_USE_ACQUIRE, session, DLOCK_OK);
    }
    if (status != DLOCK_OK) {
        dl_attempt_no_session(&a->attempt, dl_client_now(a->client), status, jitter(a));
        return;
    }
    sent_ns = dl_client_now(a->client);
    req->flags = 0;
    req->deadline_ns =
        blocks ? a->attempt.until_ns : dl_attempt_exchange_until(&a->attempt, sent_ns);
    status = blocks ? call_lock(a, session) : call_trylock(a, session);
    dl_lock_session_put(a->lock, DL_USE_ACQUIRE, session, status);
    if (status == DLOCK_CANCELED && cancel_status(a) != DLOCK_OK)
        status = dl_error(a->err, cancel_status(a), "%s", dlock_status_text((int)cancel_status(a)));
    if (status == DLOCK_OK || status == DLOCK_BUSY)
        dl_attempt_tried(&a->attempt, sent_ns, dl_client_now(a->client), status, &a->grant, 0);
    else
        dl_attempt_tried(&a->attempt, sent_ns, dl_client_now(a->client), status, &a->grant,
                         jitter(a));
    if (status != DLOCK_OK && a->attempt.rules.session)
        abandon(a, status);
}

static void step_watch(struct acquire *a)
{
    struct dl_session *session = NULL;
    enum dlock_status status =
        dl_lock_session(a->lock, DL_USE_WAIT, a->attempt.until_ns, &session, a->err);

    if (status == DLOCK_OK) {
        a->lock->req.flags = 0; /* before interrupt may look at it */
        a->lock->req.deadline_ns = a->attempt.until_ns;
        status = watched_set(a, session);
        if (status == DLOCK_OK) {
            status = dl_dispatch_watch(a->client->plugin, session->self, &a->lock->req, a->err);
            (void)watched_set(a, NULL);
        } else {
            status = DLOCK_CANCELED;
        }
        if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED) /* nothing wrong with it */
            dl_lock_session_put(a->lock, DL_USE_WAIT, session, DLOCK_OK);
        else
            dl_lock_session_put(a->lock, DL_USE_WAIT, session, status);
    }
    dl_attempt_watched(&a->attempt, dl_client_now(a->client), status, jitter(a));
}

static void step_sleep(struct acquire *a)
{
    struct dlock *lock = a->lock;

    (void)pthread_mutex_lock(&a->client->mutex);
    while (lock->cancel == DLOCK_OK && dl_client_now(a->client) < a->attempt.until_ns)
        dl_cond_wait_until(&lock->changed, &a->client->mutex, &a->client->host.clock,
                           a->attempt.until_ns);
    (void)pthread_mutex_unlock(&a->client->mutex);
    dl_attempt_slept(&a->attempt, dl_client_now(a->client));
}

/* Best effort, whatever comes back: the store forgets the lease by itself (C4). */
static void step_return(struct acquire *a)
{
    dl_lock_give_back(a->lock, DL_USE_HOLDER, a->attempt.until_ns);
    a->begun = false;
    dl_attempt_returned(&a->attempt, dl_client_now(a->client));
}

static void step(struct acquire *a)
{
    enum dlock_status cancel = cancel_status(a);

    if (cancel != DLOCK_OK && a->attempt.step != DL_STEP_RETURN) {
        dl_attempt_cancel(&a->attempt, dl_client_now(a->client), cancel);
        (void)dl_error(a->err, cancel, "%s", dlock_status_text((int)cancel));
        return;
    }
    switch (a->attempt.step) {
    case DL_STEP_TRY:
    case DL_STEP_LOCK:
        step_try(a);
        break;
    case DL_STEP_WATCH:
        step_watch(a);
        break;
    case DL_STEP_SLEEP:
        step_sleep(a);
        break;
    case DL_STEP_RETURN:
        step_return(a);
        break;
    case DL_STEP_DONE:
        break;
    }
}

static enum dlock_status acquire_end(struct acquire *a)
{
    struct dlock *lock = a->lock;
    enum dlock_status status = a->attempt.result;

    if (status != DLOCK_OK) {
        abandon(a, status);
        if (status == DLOCK_TIMEOUT || status == DLOCK_BUSY) /* no matter what came before */
            (void)dl_error(a->err, status, "%s", dlock_status_text((int)status));
    }
    (void)pthread_mutex_lock(&a->client->mutex);
    if (status == DLOCK_OK)
        dl_hold_granted_locked(lock, dl_client_now(a->client), a->attempt.valid_until_ns,
                               &a->grant);
    dl_lock_idle_locked(lock);
    (void)pthread_mutex_unlock(&a->client->mutex);
    return status;
}

enum dlock_status dl_acquire(struct dlock *lock, enum dlock_mode mode, int64_t timeout_ms,
                             struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct acquire a = {.lock = lock, .client = client, .err = err};
    struct dl_attempt_rules rules = {
        .op_timeout_ns = lock->op_timeout_ms * DL_NS_PER_MS,
        .poll_max_ns = lock->poll_max_ms * DL_NS_PER_MS,
        .wait = timeout_ms != 0 && timeout_ms != DLOCK_TRY,
        .native = dl_client_has(client, DLOCK_CAP_NATIVE_WAIT),
        .watch = dl_client_has(client, DLOCK_CAP_WATCH),
        .session = dl_client_has(client, DLOCK_CAP_SESSION),
    };
    enum dlock_status status;

    (void)pthread_mutex_lock(&client->mutex);
    status = acquire_begin(lock, mode, err);
    (void)pthread_mutex_unlock(&client->mutex);
    if (status != DLOCK_OK)
        return status;

    dl_attempt_start(&a.attempt, &rules, dl_client_now(client), timeout_ms);
    while (a.attempt.step != DL_STEP_DONE)
        step(&a);
    return acquire_end(&a);
}
