/* SPDX-License-Identifier: MIT */
#include "acquire/acquire.h"
#include "acquire/acquire_fsm.h"
#include "acquire/acquire_text.h"
#include "acquire/lengthen.h"
#include "acquire/local_waiter.h"
#include "hold/held.h"
#include "hold/renewer.h"
#include "session/dispatch.h"
#include "sys/error.h"

#include <string.h>

/* While a handle of this client holds the lock, the first waiter waits for a hand-off for this time
 * before it asks the store for a queue entry. */
#define HANDOFF_WAIT_NS (5 * DL_NS_PER_MS)

struct acquire {
    struct dlock *lock;
    struct dlock_client *client;
    struct dlock_error *err;
    struct dl_waiting waiting; /* the handle points to it */
    struct dl_acquire_fsm attempt;
    struct dlock_grant grant; /* of the last trylock, lock or watch */
    struct dl_acquire_text text;
    int64_t now_ns;         /* when the last step ended; the first one: began */
    bool begun;             /* the request has a token that is not used up */
    bool waits_for_handoff; /* the store was not asked yet */
    bool has_entry;         /* counted in the name's queue_entries */
    enum dlock_status
        failing; /* the last failure that was noted for the waiters behind this call */
};

static int64_t now(struct acquire *a)
{
    a->now_ns = dl_client_now(a->client);
    return a->now_ns;
}

/* OK: the phase has begun. */
static enum dlock_status acquire_begin_locked(struct acquire *a, enum dlock_mode mode)
{
    struct dlock *lock = a->lock;
    struct dlock_client *client = a->client;
    struct dlock_error *err = a->err;
    enum dlock_status status;

    if (client->shutdown)
        return dl_error(err, DLOCK_CLOSED, "the client is shut down");
    status = dl_handle_supported(lock, mode, err);
    if (status != DLOCK_OK)
        return status;
    if (lock->phase != DL_PHASE_IDLE)
        return dl_error(err, DLOCK_ALREADY, "another thread is using this handle");
    switch (dl_lease_state(&lock->lease, a->now_ns)) {
    case DLOCK_STATE_FREE:
        break;
    case DLOCK_STATE_LOST:
        return dl_error(err, DLOCK_LOST, "the lock was lost; acknowledge it by dlock_unlock");
    default:
        return dl_error(err, DLOCK_ALREADY, "this handle holds the lock");
    }
    if (dl_renewer_start_locked(client, err) != DLOCK_OK)
        return DLOCK_NOMEM;
    lock->phase = DL_PHASE_ACQUIRING;
    client->acquiring++;
    lock->claim->req.mode = mode;
    lock->waiting = &a->waiting;
    if (lock->canceled)
        a->waiting.cancel = DLOCK_CANCELED;
    lock->canceled = false;
    lock->repeatable = false;
    return DLOCK_OK;
}

/* Sets a new token and empties the slot, unless the attempt goes on. A session was taken for it,
 * which may have told of other ttls. */
static enum dlock_status request_begin(struct acquire *a)
{
    unsigned char token[DLOCK_TOKEN_SIZE];

    if (a->begun)
        return DLOCK_OK;
    if (dl_ttl_grid_judge(&a->client->pool.ttls, a->lock->options->ttl_ms, a->err) != DLOCK_OK)
        return DLOCK_CONFIG;
    if (a->client->host.random(token, sizeof token) != 0)
        return dl_error(a->err, DLOCK_INTERNAL, "no random bytes for an owner token");
    (void)pthread_mutex_lock(&a->client->mutex); /* dlock_token may be reading */
    dl_handle_begin_claim_locked(a->lock, token);
    (void)pthread_mutex_unlock(&a->client->mutex);
    a->begun = true;
    return DLOCK_OK;
}

/* Tells dlock_cancel which session to interrupt. Returns OK, or the status with which the call must
 * return instead of waiting. */
static enum dlock_status watched_set(struct acquire *a, struct dl_session *session)
{
    enum dlock_status cancel;

    (void)pthread_mutex_lock(&a->client->mutex);
    cancel = a->waiting.cancel;
    a->waiting.watched = cancel == DLOCK_OK ? session : NULL;
    (void)pthread_mutex_unlock(&a->client->mutex);
    return cancel;
}

/* Keeps the name's count of queue entries of this client. */
static void entry_set(struct acquire *a, bool has_entry)
{
    struct dl_name_state *name = a->lock->name;

    if (a->has_entry == has_entry)
        return;
    a->has_entry = has_entry;
    (void)pthread_mutex_lock(&a->client->mutex);
    if (has_entry)
        name->queue_entries++;
    else
        name->queue_entries--;
    (void)pthread_mutex_unlock(&a->client->mutex);
}

/* Notes whether the store has our queue entry. A handle of this client that holds the lock learns
 * how many others wait. */
static void entry_note(struct acquire *a)
{
    struct dl_name_state *name = a->lock->name;

    entry_set(a, a->attempt.has_entry && a->attempt.step != DL_STEP_DONE);
    if (!a->has_entry)
        return;
    (void)pthread_mutex_lock(&a->client->mutex);
    dl_name_state_note_waiters(name, a->grant.waiters, name->queue_entries - 1, a->now_ns);
    (void)pthread_mutex_unlock(&a->client->mutex);
}

/* Logs a failure of the store once, and notes it for the waiters behind this call. */
static void failure_note(struct acquire *a)
{
    enum dlock_status failing = a->attempt.failures > 0 ? a->attempt.failure : DLOCK_OK;

    if (failing != DLOCK_OK && a->attempt.step != DL_STEP_DONE &&
        (a->attempt.failures > 1 || !a->attempt.rules.connected)) /* not for one lost connection */
        dl_acquire_text_fails(&a->text, a->err, &a->client->host.log);
    if (a->failing == failing)
        return;
    a->failing = failing;
    (void)pthread_mutex_lock(&a->client->mutex);
    a->lock->name->failure = failing;
    (void)pthread_mutex_unlock(&a->client->mutex);
}

static enum dlock_status fence_check(struct acquire *a)
{
    if (!a->lock->options->must_fence || a->grant.fence != 0 ||
        a->lock->claim->req.mode == DLOCK_SHARED)
        return DLOCK_OK;
    return dl_error(a->err, DLOCK_INTERNAL, "fence=on: the store granted without a token");
}

static enum dlock_status call_lock(struct acquire *a, struct dl_session *session)
{
    enum dlock_status status = watched_set(a, session);

    if (status != DLOCK_OK)
        return status;
    status = dl_dispatch_lock(a->client->plugin, session->self, session->caps, &a->lock->claim->req,
                              &a->grant, a->err);
    (void)watched_set(a, NULL);
    return status;
}

/* Ends the attempt without an unlock. */
static void abandon(struct acquire *a, enum dlock_status status)
{
    dl_claim_forget(a->client, a->lock->claim);
    a->begun = false;
    dl_claim_lease_session_put(a->client, a->lock->claim, status);
}

static uint32_t try_flags(const struct acquire *a)
{
    if (a->attempt.step == DL_STEP_REFRESH)
        return DLOCK_REQ_REFRESH;
    return a->attempt.step == DL_STEP_TRY && a->attempt.rules.queue ? DLOCK_REQ_ENQUEUE : 0;
}

static enum dlock_status try_call(struct acquire *a, struct dl_session *session, int64_t sent_ns)
{
    struct dlock_request *req = &a->lock->claim->req;
    bool blocks = a->attempt.step == DL_STEP_LOCK;
    enum dlock_status status, cancel;

    req->flags = try_flags(a);
    if (req->flags != 0)
        a->lock->claim->enqueued = true;
    req->deadline_ns =
        blocks ? a->attempt.until_ns : dl_acquire_fsm_answer_until(&a->attempt, sent_ns);
    status = blocks ? call_lock(a, session)
                    : dl_dispatch_trylock(a->client->plugin, session->self, session->caps, req,
                                          &a->grant, a->err);
    if (status == DLOCK_OK)
        status = fence_check(a);
    dl_claim_session_put(a->client, a->lock->claim, DL_USE_ACQUIRE, session, status);
    cancel = status == DLOCK_CANCELED ? watched_set(a, NULL) : DLOCK_OK;
    if (cancel != DLOCK_OK)
        status = dl_error(a->err, cancel, "%s", dlock_status_text((int)cancel));
    return status;
}

/* A session that comes at the last moment is of no use: a request could not be answered any more.
 */
static int64_t session_until(const struct acquire *a)
{
    int64_t rest_ns = (a->attempt.until_ns - a->now_ns) / 2;

    if (a->attempt.step == DL_STEP_LOCK)
        return dl_acquire_fsm_exchange_until(&a->attempt, a->now_ns);
    return a->attempt.until_ns - (rest_ns < DL_GRACE_NS / 2 ? rest_ns : DL_GRACE_NS / 2);
}

static void step_try(struct acquire *a)
{
    struct dl_session *session = NULL;
    int64_t sent_ns;
    enum dlock_status status = dl_claim_session(a->client, a->lock->claim, DL_USE_ACQUIRE,
                                                session_until(a), &session, a->err);

    if (status == DLOCK_OK) {
        status = request_begin(a);
        if (status != DLOCK_OK)
            dl_claim_session_put(a->client, a->lock->claim, DL_USE_ACQUIRE, session, DLOCK_OK);
    }
    if (status != DLOCK_OK) {
        dl_acquire_fsm_no_session(&a->attempt, now(a), status, dl_client_random(a->client));
        failure_note(a);
        return;
    }
    sent_ns = now(a);
    status = try_call(a, session, sent_ns);
    dl_acquire_text_answered(&a->text, status, &a->grant, a->err);
    dl_acquire_fsm_tried(&a->attempt, sent_ns, now(a), status, &a->grant,
                         status == DLOCK_OK ? 0 : dl_client_random(a->client));
    if (a->attempt.step != DL_STEP_DONE)
        dl_acquire_text_waits(&a->text, &a->client->host.log);
    failure_note(a);
    entry_note(a);
    if (status != DLOCK_OK && a->attempt.rules.session)
        abandon(a, status);
}

static struct dl_acquire_fsm_rules rules_of(const struct dlock *lock, bool wait)
{
    const struct dlock_client *client = lock->client;

    return (struct dl_acquire_fsm_rules){
        .connected = dl_session_pool_first(&client->pool) != NULL,
        .op_timeout_ns = dl_handle_op_timeout_ms(lock) * DL_NS_PER_MS,
        .poll_max_ns = lock->options->poll_max_ms * DL_NS_PER_MS,
        .wait = wait,
        .native = dl_client_has(client, DLOCK_CAP_NATIVE_WAIT),
        .watch = dl_client_has(client, DLOCK_CAP_WATCH),
        .queue = wait && lock->options->in_queue && dl_client_has(client, DLOCK_CAP_QUEUE),
        .session = dl_client_has(client, DLOCK_CAP_SESSION),
    };
}

/* A client that was opened lazily learns only now what its store can do. */
static void step_connect(struct acquire *a)
{
    struct dl_pool *pool = &a->client->pool;
    struct dl_session *session = NULL;
    enum dlock_status status =
        dl_session_pool_take(pool, DL_USE_ACQUIRE, a->attempt.until_ns, &session, a->err);

    if (status == DLOCK_OK) {
        dl_session_pool_put(pool, DL_USE_ACQUIRE, session, DLOCK_OK);
        status = dl_handle_supported(a->lock, a->lock->claim->req.mode, a->err);
    }
    if (status == DLOCK_OK) {
        struct dl_acquire_fsm_rules rules = rules_of(a->lock, a->attempt.rules.wait);

        dl_acquire_fsm_connected(&a->attempt, now(a), &rules);
    } else {
        dl_acquire_fsm_no_session(&a->attempt, now(a), status, dl_client_random(a->client));
    }
    failure_note(a);
}

/* Takes over the claim of another handle, with the rest of its lease. */
static void take_over(struct acquire *a)
{
    struct dl_claim *claim = a->lock->claim;

    a->begun = true;
    entry_set(a, false); /* the handle that handed the lease on withdraws our queue entry */
    a->grant = (struct dlock_grant){.fence = claim->fence == 0 ? 0 : claim->fence + claim->handoffs,
                                    .lease_ms = a->lock->renewal.lease_ms};
    dl_acquire_fsm_holds(&a->attempt, now(a), a->waiting.handed_until_ns, a->grant.lease_ms);
}

/* A hand-off is possible only if the attempt has left nothing unknown in the store. */
static enum dlock_status park(struct acquire *a, int64_t until_ns, bool held)
{
    return dl_local_waiter_park(a->lock, until_ns, held, !a->attempt.uncertain);
}

/* UNAVAILABLE says that it cannot watch now [WAT-1], not that the session is broken. */
static bool is_intact_after_watch(enum dlock_status status)
{
    return status == DLOCK_TIMEOUT || status == DLOCK_CANCELED || status == DLOCK_UNAVAILABLE;
}

static enum dlock_status watch_call(struct acquire *a)
{
    struct dlock_request *req = &a->lock->claim->req;
    struct dl_session *session = NULL;
    enum dlock_status status = dl_claim_session(a->client, a->lock->claim, DL_USE_WAIT,
                                                a->attempt.until_ns, &session, a->err);

    if (status != DLOCK_OK)
        return status;
    req->flags = 0; /* before interrupt may read it */
    req->deadline_ns = a->attempt.until_ns;
    status = watched_set(a, session);
    if (status == DLOCK_OK) {
        status = dl_dispatch_watch(a->client->plugin, session->self, session->caps, req, &a->grant,
                                   a->err);
        (void)watched_set(a, NULL);
    } else {
        status = DLOCK_CANCELED;
    }
    dl_claim_session_put(a->client, a->lock->claim, DL_USE_WAIT, session,
                         is_intact_after_watch(status) ? DLOCK_OK : status);
    return status;
}

static void step_watch(struct acquire *a)
{
    bool held = dl_local_waiter_held_here(a->lock);
    enum dlock_status status = held ? park(a, a->attempt.until_ns, true) : watch_call(a);

    if (held && status == DLOCK_OK)
        return; /* handed */
    if (status == DLOCK_OK && fence_check(a) != DLOCK_OK)
        status = DLOCK_INTERNAL;
    dl_acquire_fsm_watched(&a->attempt, now(a), status, &a->grant, dl_client_random(a->client));
    entry_set(a, a->attempt.has_entry && a->attempt.step != DL_STEP_DONE);
}

static void step_sleep(struct acquire *a)
{
    if (park(a, a->attempt.until_ns, dl_local_waiter_held_here(a->lock)) != DLOCK_OK)
        dl_acquire_fsm_slept(&a->attempt, now(a));
}

/* Tries once: if the try fails, the store ends the lease by itself (C4). */
static void step_return(struct acquire *a)
{
    dl_claim_give_back(a->client, a->lock->claim, DL_USE_HOLDER, a->attempt.until_ns);
    a->begun = false;
    entry_set(a, false);
    (void)pthread_mutex_lock(&a->client->mutex);
    dl_held_uncount_locked(a->lock); /* the lease may have come by a hand-off */
    (void)pthread_mutex_unlock(&a->client->mutex);
    dl_acquire_fsm_returned(&a->attempt, now(a));
}

/* Waits before the first request to the store: the holder in this process may hand the lease on
 * soon. */
static void step_wait_for_handoff(struct acquire *a)
{
    int64_t until_ns = a->now_ns + HANDOFF_WAIT_NS;

    a->waits_for_handoff = false;
    if (until_ns > a->attempt.deadline_ns)
        until_ns = a->attempt.deadline_ns;
    (void)park(a, until_ns, true);
    (void)now(a);
}

static void step(struct acquire *a)
{
    enum dlock_status cancel;

    if (dl_local_waiter_recheck(a->lock, !a->waits_for_handoff, &cancel)) {
        take_over(a);
        return;
    }
    if (cancel != DLOCK_OK && a->attempt.step != DL_STEP_RETURN) {
        dl_acquire_fsm_cancel(&a->attempt, now(a), cancel);
        (void)dl_error(a->err, cancel, "%s", dlock_status_text((int)cancel));
        return;
    }
    if (a->waits_for_handoff) {
        step_wait_for_handoff(a);
        return;
    }
    switch (a->attempt.step) {
    case DL_STEP_CONNECT:
        step_connect(a);
        break;
    case DL_STEP_TRY:
    case DL_STEP_LOCK:
    case DL_STEP_REFRESH:
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

static void granted_locked(struct acquire *a)
{
    struct dlock *lock = a->lock;
    struct dl_claim *claim = lock->claim;

    claim->enqueued = false;
    if (!lock->is_holder) { /* from the store */
        claim->fence = a->grant.fence;
        claim->fence_room = a->grant.fence_room;
        claim->handoffs = 0;
        dl_name_state_note_grant(lock->name, dl_held_waiters(lock, &a->grant),
                                 lock->name->queue_entries, a->now_ns);
        dl_held_count_locked(lock);
    }
    dl_held_granted_locked(lock, a->now_ns, a->attempt.valid_until_ns, &a->grant);
}

static enum dlock_status attempt_run(struct acquire *a)
{
    do {
        while (a->attempt.step != DL_STEP_DONE)
            step(a);
    } while (dl_lengthen(a->lock, &a->attempt, &a->grant, &a->now_ns, a->err));
    return a->attempt.result;
}

static enum dlock_status acquire_end(struct acquire *a, enum dlock_status status)
{
    struct dlock *lock = a->lock;

    entry_set(a, false);
    if (status != DLOCK_OK) {
        abandon(a, status);
        dl_acquire_text_end(&a->text, status, a->err);
    }
    (void)pthread_mutex_lock(&a->client->mutex);
    dl_local_waiter_unlink_locked(lock);
    dl_held_idle_locked(lock);
    if (status == DLOCK_OK) /* in one step: no thread sees a handle that is held and acquiring */
        granted_locked(a);
    (void)pthread_mutex_unlock(&a->client->mutex);
    return status;
}

enum dlock_status dl_acquire(struct dlock *lock, enum dlock_mode mode, int64_t timeout_ms,
                             struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct acquire a = {.lock = lock, .client = client, .err = err, .waiting.lock = lock};
    bool wait = timeout_ms != 0 && timeout_ms != DLOCK_TRY;
    int64_t deadline_ns = dl_clock_after_ms(now(&a), timeout_ms);
    enum dlock_status status;
    bool begun;

    (void)pthread_mutex_lock(&client->mutex);
    status = dl_held_again_locked(lock, mode, err);
    if (status == DLOCK_NOT_HELD)
        status = acquire_begin_locked(&a, mode);
    begun = lock->waiting == &a.waiting;
    if (begun) {
        status = dl_local_waiter_enter_locked(lock, mode, wait, deadline_ns, &a.now_ns);
        a.waits_for_handoff = wait && dl_name_state_held_against(lock->name, mode);
        a.failing = lock->name->failure;
    }
    (void)pthread_mutex_unlock(&client->mutex);
    if (!begun)
        return status;
    if (dlock_status_class((int)status) == DLOCK_CLASS_BACKEND)
        (void)dl_error(err, status, "the store did not answer the thread before this one");
    if (status == DLOCK_OK) {
        struct dl_acquire_fsm_rules rules = rules_of(lock, wait);

        dl_acquire_fsm_start(&a.attempt, &rules, a.now_ns, deadline_ns);
        status = attempt_run(&a);
    }
    return acquire_end(&a, status);
}
