/* SPDX-License-Identifier: MIT */
#include "acquire/acquire.h"
#include "acquire/acquire_steps.h"
#include "acquire/local_waiter.h"
#include "acquire/try_batch.h"
#include "hold/held.h"
#include "hold/operation.h"
#include "session/dispatch.h"
#include "sys/error.h"

void dl_acquire_cancel_locked(struct dlock_handle *lock, enum dlock_status status)
{
    struct dl_waiting *waiting = lock->waiting;

    if (waiting == NULL || waiting->cancel != DLOCK_OK)
        return;
    waiting->cancel = status;
    if (waiting->watched != NULL)
        dl_dispatch_interrupt(lock->client->plugin, waiting->watched->self, &lock->claim->req);
    dl_handle_changed_locked(lock);
}

void dl_acquire_cancel(struct dlock_handle *lock)
{
    (void)pthread_mutex_lock(&lock->client->mutex);
    lock->canceled |= lock->waiting == NULL && !dl_operation_under_way(lock->operation);
    dl_acquire_cancel_locked(lock, DLOCK_CANCELED);
    (void)pthread_mutex_unlock(&lock->client->mutex);
}

void dl_acquire_cancel_reset(struct dlock_handle *lock)
{
    (void)pthread_mutex_lock(&lock->client->mutex);
    lock->canceled = false;
    (void)pthread_mutex_unlock(&lock->client->mutex);
}

void dl_acquire_cancel_all_locked(struct dlock_client *client, enum dlock_status status)
{
    for (struct dlock_handle *lock = client->locks; lock != NULL; lock = lock->next)
        dl_acquire_cancel_locked(lock, status);
}

/* A hand-off is possible only if the attempt has left nothing unknown in the store. */
static enum dlock_status park(struct dl_acquire *a, int64_t until_ns, bool held)
{
    return dl_local_waiter_park(a->lock, until_ns, held, !a->attempt.uncertain);
}

/* UNAVAILABLE says that it cannot watch now [WAT-1], not that the session is broken. */
static bool is_intact_after_watch(enum dlock_status status)
{
    return status == DLOCK_TIMEOUT || status == DLOCK_CANCELED || status == DLOCK_UNAVAILABLE;
}

static enum dlock_status watch_call(struct dl_acquire *a, struct dlock_grant *grant)
{
    struct dlock_request *req = &a->lock->claim->req;
    struct dl_session *session = NULL;
    enum dlock_status status = dl_claim_session(a->lock->client, a->lock->claim, DL_USE_WAIT,
                                                a->attempt.until_ns, &session, a->err);

    if (status != DLOCK_OK)
        return status;
    req->flags = 0; /* before interrupt may read it */
    req->deadline_ns = a->attempt.until_ns;
    status = dl_acquire_steps_watched_set(a, session);
    if (status == DLOCK_OK) {
        status = dl_dispatch_watch(a->lock->client->plugin, session->self, session->caps, req,
                                   grant, a->err);
        (void)dl_acquire_steps_watched_set(a, NULL);
    } else {
        status = DLOCK_CANCELED;
    }
    dl_claim_session_put(a->lock->client, a->lock->claim, DL_USE_WAIT, session,
                         is_intact_after_watch(status) ? DLOCK_OK : status);
    return status;
}

static void step_watch(struct dl_acquire *a)
{
    bool held = dl_local_waiter_held_here(a->lock);
    struct dlock_grant grant = {0};
    enum dlock_status status = held ? park(a, a->attempt.until_ns, true) : watch_call(a, &grant);

    if (held && status == DLOCK_OK)
        return; /* handed */
    if (status == DLOCK_OK && dl_acquire_steps_granted(a, &grant) != DLOCK_OK)
        status = DLOCK_INTERNAL;
    dl_acquire_fsm_watched(&a->attempt, dl_acquire_steps_now(a), status, &grant,
                           dl_client_random(a->lock->client));
    dl_acquire_steps_entry_set(a, a->attempt.has_entry && a->attempt.step != DL_STEP_DONE);
}

static void step_sleep(struct dl_acquire *a)
{
    if (park(a, a->attempt.until_ns, dl_local_waiter_held_here(a->lock)) != DLOCK_OK)
        dl_acquire_fsm_slept(&a->attempt, dl_acquire_steps_now(a));
}

/* Waits before the first request to the store: the holder in this process may hand the lease on
 * soon. */
static void step_wait_for_handoff(struct dl_acquire *a)
{
    int64_t until_ns = a->now_ns + DL_HANDOFF_WAIT_NS;

    a->waits_for_handoff = false;
    if (until_ns > a->attempt.deadline_ns)
        until_ns = a->attempt.deadline_ns;
    (void)park(a, until_ns, true);
    (void)dl_acquire_steps_now(a);
}

static void step(struct dl_acquire *a)
{
    if (dl_acquire_steps_recheck(a) || dl_try_batch_step(a) || dl_acquire_steps_shared(a))
        return;
    if (a->waits_for_handoff)
        step_wait_for_handoff(a);
    else if (a->attempt.step == DL_STEP_WATCH)
        step_watch(a);
    else if (a->attempt.step == DL_STEP_SLEEP)
        step_sleep(a);
}

static enum dlock_status attempt_run(struct dl_acquire *a)
{
    do {
        while (a->attempt.step != DL_STEP_DONE)
            step(a);
    } while (dl_acquire_lengthen(a->lock, &a->attempt, &a->granted.lease_ms, &a->now_ns, a->err));
    return a->attempt.result;
}

enum dlock_status dl_acquire(struct dlock_handle *lock, enum dlock_mode mode, int64_t timeout_ms,
                             struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct dl_acquire a = {.lock = lock, .err = err, .waiting.lock = lock};
    bool wait = timeout_ms != 0;
    int64_t deadline_ns = dl_clock_after_ms(dl_acquire_steps_now(&a), timeout_ms);
    enum dlock_status status;
    bool begun;

    (void)pthread_mutex_lock(&client->mutex);
    status = dl_operation_bars_locked(lock->operation, err);
    if (status == DLOCK_OK)
        status = dl_held_again_locked(lock, mode, err);
    if (status == DLOCK_NOT_HELD)
        status = dl_acquire_steps_begin_locked(&a, mode);
    begun = lock->waiting == &a.waiting;
    if (begun) {
        status = dl_local_waiter_enter_locked(lock, mode, wait, deadline_ns, &a.now_ns);
        dl_acquire_steps_admitted_locked(&a, wait);
    }
    (void)pthread_mutex_unlock(&client->mutex);
    if (!begun)
        return status;
    if (dlock_status_class((int)status) == DLOCK_CLASS_BACKEND)
        (void)dl_error(err, status, "the store did not answer the thread before this one");
    if (status == DLOCK_OK) {
        dl_acquire_steps_start(&a, wait, deadline_ns);
        status = attempt_run(&a);
    }
    dl_acquire_steps_conclude(&a, status);
    (void)pthread_mutex_lock(&client->mutex);
    dl_acquire_steps_end_locked(&a, status);
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}
