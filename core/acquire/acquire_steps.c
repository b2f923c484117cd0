/* SPDX-License-Identifier: MIT */
#include "acquire/acquire_steps.h"
#include "acquire/local_waiter.h"
#include "hold/held.h"
#include "hold/lease.h"
#include "hold/renew_schedule.h"
#include "hold/renewer.h"
#include "session/dispatch.h"
#include "sys/error.h"

#include <dlock/dlock.h>
#include <stdlib.h>
#include <string.h>

static void acquire_text_fini(struct dl_acquire_text *text)
{
    free(text->busy);
    text->busy = NULL;
}

/* trylock has answered with status, grant and err. */
static void acquire_text_answered(struct dl_acquire_text *text, enum dlock_status status,
                                  const struct dlock_grant *grant, const struct dlock_error *err)
{
    bool has_text = status == DLOCK_BUSY && err->status == DLOCK_BUSY && grant->holder_ms >= 0 &&
                    err->message[0] != '\0' &&
                    strcmp(err->message, dlock_status_text(DLOCK_BUSY)) != 0;

    if (!has_text)
        acquire_text_fini(text);
    else if (text->busy == NULL) /* without memory the text is left out */
        text->busy = malloc(sizeof *text->busy);
    if (text->busy != NULL)
        *text->busy = *err;
}

/* The acquire waits: logs one warning if the store gave a reason. */
static void acquire_text_waits(struct dl_acquire_text *text, const struct dl_name_state *name,
                               const struct dl_log *log)
{
    char out[DL_NAME_TEXT];

    if (text->busy == NULL || text->warned)
        return;
    text->warned = true;
    dl_log(log, DLOCK_LOG_WARNING, "%s: waiting: %s", dl_name_state_text(name, out),
           text->busy->message);
}

/* The store fails with err and the acquire waits for it: logs one warning. */
static void acquire_text_fails(struct dl_acquire_text *text, const struct dlock_error *err,
                               const struct dl_name_state *name, const struct dl_log *log)
{
    char out[DL_NAME_TEXT];

    if (text->failure_warned || err->message[0] == '\0')
        return;
    text->failure_warned = true;
    dl_log(log, DLOCK_LOG_WARNING, "%s: waiting: %s", dl_name_state_text(name, out), err->message);
}

/* The acquire ends with status. err: in: the last error; out: the error of the call. */
static void acquire_text_end(const struct dl_acquire_text *text, enum dlock_status status,
                             struct dlock_error *err)
{
    uint32_t nodes = err->node_count; /* the errors of the nodes stay */

    if (dlock_status_class((int)status) != DLOCK_CLASS_OUTCOME && status != DLOCK_CLOSED)
        return;
    if (text->busy != NULL && (status == DLOCK_BUSY || status == DLOCK_TIMEOUT)) {
        *err = *text->busy;
        err->status = status;
        return;
    }
    (void)dl_error(err, status, "%s", dlock_status_text((int)status));
    err->node_count = nodes;
}

/* Whether the renewer will renew the lease when two thirds of it are left, or soon after. */
static bool is_renewed_in_time(const struct dlock_handle *lock,
                               const struct dl_acquire_fsm *attempt, int64_t lease_ms)
{
    struct dlock_client *client = lock->client;
    int64_t third_ns = lease_ms * (DL_NS_PER_MS / 3);
    int64_t busy_until_ns;

    if (lock->claim->req.ttl_ms == DLOCK_TTL_NONE) /* this process may be stopped at once */
        return false;

    (void)pthread_mutex_lock(&client->mutex);
    busy_until_ns = client->renewer->busy_until_ns;
    (void)pthread_mutex_unlock(&client->mutex);
    return lock->renewal.automatic && busy_until_ns < attempt->valid_until_ns - third_ns;
}

/* C3 */
static bool is_enough(const struct dlock_handle *lock, int64_t valid_until_ns, int64_t lease_ms,
                      int64_t now_ns)
{
    return valid_until_ns - now_ns > dl_handle_least_ns(lock, lease_ms);
}

bool dl_acquire_lengthen_is_due(const struct dlock_handle *lock,
                                const struct dl_acquire_fsm *attempt, int64_t lease_ms,
                                int64_t now_ns)
{
    return attempt->result == DLOCK_OK && !attempt->rules.session &&
           lease_ms < lock->claim->req.ttl_ms &&
           (!attempt->rules.wait || now_ns < attempt->deadline_ns) &&
           (!is_renewed_in_time(lock, attempt, lease_ms) ||
            !is_enough(lock, attempt->valid_until_ns, lease_ms, now_ns));
}

/* Returns the end of the validity; 0: the lock is lost. */
static int64_t renew(struct dlock_handle *lock, const struct dl_acquire_fsm *attempt,
                     int64_t *lease_ms, int64_t now_ns, struct dlock_error *err)
{
    int64_t valid_until_ns = attempt->valid_until_ns;
    int64_t spare_ns = valid_until_ns - dl_lease_least_ns(*lease_ms) - now_ns;
    int64_t deadline_ns = dl_acquire_fsm_exchange_until(attempt, now_ns);

    deadline_ns = dl_earlier(deadline_ns, now_ns + spare_ns / 2);
    if (dl_renew_first(lock, deadline_ns, lease_ms, &valid_until_ns, err) == DLOCK_LOST)
        return 0;
    return valid_until_ns;
}

bool dl_acquire_lengthen(struct dlock_handle *lock, struct dl_acquire_fsm *attempt,
                         int64_t *lease_ms, int64_t *now_ns, struct dlock_error *err)
{
    int64_t valid_until_ns;

    if (attempt->result != DLOCK_OK)
        return false;
    valid_until_ns = attempt->valid_until_ns;
    if (dl_acquire_lengthen_is_due(lock, attempt, *lease_ms, *now_ns)) {
        valid_until_ns = renew(lock, attempt, lease_ms, *now_ns, err);
        *now_ns = dl_client_now(lock->client);
    } else if (is_enough(lock, valid_until_ns, *lease_ms, *now_ns)) {
        return false;
    }
    if (!is_enough(lock, valid_until_ns, *lease_ms, *now_ns))
        valid_until_ns = 0;
    dl_acquire_fsm_holds(attempt, *now_ns, valid_until_ns, *lease_ms);
    return attempt->step != DL_STEP_DONE;
}

enum dlock_status dl_acquire_steps_begin_locked(struct dl_acquire *a, enum dlock_mode mode)
{
    struct dlock_handle *lock = a->lock;
    struct dlock_client *client = a->lock->client;
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
    a->begun_ns = a->now_ns;
    dl_stats_count_locked(&lock->name->stats->waiting);
    DL_PROBE(acquire_start, lock, mode, 0);
    return DLOCK_OK;
}

/* Sets a new token and empties the slot, unless the attempt goes on. A session was taken for it,
 * which may have told of other ttls. */
static enum dlock_status request_begin(struct dl_acquire *a)
{
    unsigned char token[DLOCK_TOKEN_SIZE];

    if (a->begun)
        return DLOCK_OK;
    if (dl_ttl_grid_judge(&a->lock->client->pool.ttls, a->lock->options->ttl_ms, a->err) !=
        DLOCK_OK)
        return DLOCK_CONFIG;
    if (a->lock->client->host.random(token, sizeof token) != 0)
        return dl_error(a->err, DLOCK_INTERNAL, "no random bytes for an owner token");
    dl_claim_forget(a->lock->client, a->lock->claim); /* of an unlock that was not repeated (C22) */
    (void)pthread_mutex_lock(&a->lock->client->mutex); /* dlock_token may be reading */
    dl_handle_begin_claim_locked(a->lock, token);
    (void)pthread_mutex_unlock(&a->lock->client->mutex);
    a->begun = true;
    return DLOCK_OK;
}

enum dlock_status dl_acquire_steps_watched_set(struct dl_acquire *a, struct dl_session *session)
{
    enum dlock_status cancel;

    (void)pthread_mutex_lock(&a->lock->client->mutex);
    cancel = a->waiting.cancel;
    a->waiting.watched = cancel == DLOCK_OK ? session : NULL;
    (void)pthread_mutex_unlock(&a->lock->client->mutex);
    return cancel;
}

void dl_acquire_steps_entry_set(struct dl_acquire *a, bool has_entry)
{
    struct dl_name_state *name = a->lock->name;

    if (a->has_entry == has_entry)
        return;
    a->has_entry = has_entry;
    (void)pthread_mutex_lock(&a->lock->client->mutex);
    if (has_entry)
        name->queue_entries++;
    else
        name->queue_entries--;
    (void)pthread_mutex_unlock(&a->lock->client->mutex);
}

/* Notes whether the store has our queue entry. A handle of this client that holds the lock learns
 * how many others wait. */
static void entry_note(struct dl_acquire *a, const struct dlock_grant *grant)
{
    struct dl_name_state *name = a->lock->name;

    dl_acquire_steps_entry_set(a, a->attempt.has_entry && a->attempt.step != DL_STEP_DONE);
    if (!a->has_entry)
        return;
    DL_PROBE(queued, a->lock, grant->queue_position, grant->waiters);
    (void)pthread_mutex_lock(&a->lock->client->mutex);
    dl_name_state_note_waiters(name, grant->waiters, name->queue_entries - 1, a->now_ns);
    (void)pthread_mutex_unlock(&a->lock->client->mutex);
}

/* Logs a failure of the store once, and notes it for the waiters behind this call. */
static void failure_note(struct dl_acquire *a)
{
    enum dlock_status failing = a->attempt.failures > 0 ? a->attempt.failure : DLOCK_OK;

    if (failing != DLOCK_OK && a->attempt.step != DL_STEP_DONE &&
        (a->attempt.failures > 1 || !a->attempt.rules.connected)) /* not for one lost connection */
        acquire_text_fails(&a->text, a->err, a->lock->name, &a->lock->client->host.log);
    if (a->failing == failing)
        return;
    a->failing = failing;
    (void)pthread_mutex_lock(&a->lock->client->mutex);
    a->lock->name->failure = failing;
    (void)pthread_mutex_unlock(&a->lock->client->mutex);
}

enum dlock_status dl_acquire_steps_granted(struct dl_acquire *a, const struct dlock_grant *grant)
{
    a->granted = (struct dl_acquire_granted){.fence = grant->fence,
                                             .lease_ms = grant->lease_ms,
                                             .fence_room = grant->fence_room,
                                             .permit = grant->permit,
                                             .waiters = grant->waiters};
    if (!a->lock->options->must_fence || grant->fence != 0 ||
        a->lock->claim->req.mode == DLOCK_SHARED)
        return DLOCK_OK;
    return dl_error(a->err, DLOCK_INTERNAL, "fence=on: the store granted without a token");
}

static enum dlock_status call_lock(struct dl_acquire *a, struct dl_session *session,
                                   struct dlock_grant *grant)
{
    enum dlock_status status = dl_acquire_steps_watched_set(a, session);

    if (status != DLOCK_OK)
        return status;
    status = dl_dispatch_lock(a->lock->client->plugin, session->self, session->caps,
                              &a->lock->claim->req, grant, a->err);
    (void)dl_acquire_steps_watched_set(a, NULL);
    return status;
}

/* Ends the attempt without an unlock. */
static void abandon(struct dl_acquire *a, enum dlock_status status)
{
    dl_claim_forget(a->lock->client, a->lock->claim);
    a->begun = false;
    dl_claim_lease_session_put(a->lock->client, a->lock->claim, status);
}

static uint32_t try_flags(const struct dl_acquire *a)
{
    if (a->attempt.step == DL_STEP_REFRESH)
        return DLOCK_REQ_REFRESH;
    return a->attempt.step == DL_STEP_TRY && a->attempt.rules.queue ? DLOCK_REQ_ENQUEUE : 0;
}

/* The request of a TRY, REFRESH or LOCK that is sent at sent_ns. */
static void request_set(struct dl_acquire *a, int64_t sent_ns)
{
    struct dlock_request *req = &a->lock->claim->req;

    req->flags = try_flags(a);
    req->waiter = a->attempt.rules.wait ? a->waiter : 0;
    if (req->flags != 0)
        a->lock->claim->enqueued = true;
    req->deadline_ns = a->attempt.step == DL_STEP_LOCK
                           ? a->attempt.until_ns
                           : dl_acquire_fsm_answer_until(&a->attempt, sent_ns);
}

static enum dlock_status try_call(struct dl_acquire *a, struct dl_session *session, int64_t sent_ns,
                                  struct dlock_grant *grant)
{
    struct dlock_request *req = &a->lock->claim->req;
    bool blocks = a->attempt.step == DL_STEP_LOCK;
    enum dlock_status status, cancel;

    request_set(a, sent_ns);
    status = blocks ? call_lock(a, session, grant)
                    : dl_dispatch_trylock(a->lock->client->plugin, session->self, session->caps,
                                          req, grant, a->err);
    if (status == DLOCK_OK)
        status = dl_acquire_steps_granted(a, grant);
    dl_claim_session_put(a->lock->client, a->lock->claim, DL_USE_ACQUIRE, session, status);
    cancel = status == DLOCK_CANCELED ? dl_acquire_steps_watched_set(a, NULL) : DLOCK_OK;
    if (cancel != DLOCK_OK)
        status = dl_error(a->err, cancel, "%s", dlock_status_text((int)cancel));
    return status;
}

int64_t dl_acquire_steps_session_until(const struct dl_acquire *a)
{
    int64_t rest_ns = (a->attempt.until_ns - a->now_ns) / 2;

    if (a->attempt.step == DL_STEP_LOCK)
        return dl_acquire_fsm_exchange_until(&a->attempt, a->now_ns);
    return a->attempt.until_ns - (rest_ns < DL_GRACE_NS / 2 ? rest_ns : DL_GRACE_NS / 2);
}

/* A lock that is granted to the queue entry of an operation is found by the next poll: that has to
 * come while the lease lasts. */
static int64_t poll_max_ns(const struct dl_acquire *a, bool queue)
{
    int64_t most_ns = a->lock->options->poll_max_ms * DL_NS_PER_MS;
    int64_t ttl_ns = dl_handle_ttl_ms(a->lock) * DL_NS_PER_MS;

    return a->async && queue ? dl_earlier(most_ns, ttl_ns / 4) : most_ns;
}

static struct dl_acquire_fsm_rules rules_of(const struct dl_acquire *a, bool wait)
{
    const struct dlock_handle *lock = a->lock;
    const struct dlock_client *client = lock->client;
    bool queue = wait && lock->options->in_queue && dl_client_has(client, DLOCK_CAP_QUEUE);

    return (struct dl_acquire_fsm_rules){
        .margin = a->lock->renewal.margin,
        .connected = dl_session_pool_first(&client->pool) != NULL,
        .op_timeout_ns = dl_handle_op_timeout_ms(lock) * DL_NS_PER_MS,
        .poll_max_ns = poll_max_ns(a, queue),
        .wait = wait,
        .native = !a->async && dl_client_has(client, DLOCK_CAP_NATIVE_WAIT),
        .watch = (!a->async || a->waiter != 0) && dl_client_has(client, DLOCK_CAP_WATCH),
        .queue = queue,
        .session = dl_client_has(client, DLOCK_CAP_SESSION),
    };
}

void dl_acquire_steps_no_session(struct dl_acquire *a, enum dlock_status status)
{
    dl_acquire_fsm_no_session(&a->attempt, dl_acquire_steps_now(a), status,
                              dl_client_random(a->lock->client));
    failure_note(a);
}

/* The exchange of a TRY, REFRESH or LOCK has ended. */
static void tried(struct dl_acquire *a, int64_t sent_ns, enum dlock_status status,
                  const struct dlock_grant *grant)
{
    dl_handle_answered(a->lock, status);
    acquire_text_answered(&a->text, status, grant, a->err);
    dl_acquire_fsm_tried(&a->attempt, sent_ns, dl_acquire_steps_now(a), status, grant,
                         status == DLOCK_OK ? 0 : dl_client_random(a->lock->client));
    if (a->attempt.step != DL_STEP_DONE)
        acquire_text_waits(&a->text, a->lock->name, &a->lock->client->host.log);
    failure_note(a);
    entry_note(a, grant);
    if (status != DLOCK_OK && a->attempt.rules.session)
        abandon(a, status);
}

enum dlock_status dl_acquire_steps_request(struct dl_acquire *a, int64_t sent_ns)
{
    enum dlock_status status = request_begin(a);

    if (status == DLOCK_OK)
        request_set(a, sent_ns);
    return status;
}

void dl_acquire_steps_tried(struct dl_acquire *a, int64_t sent_ns, enum dlock_status status,
                            const struct dlock_grant *grant)
{
    if (status == DLOCK_OK)
        status = dl_acquire_steps_granted(a, grant);
    tried(a, sent_ns, status, grant);
}

void dl_acquire_steps_try(struct dl_acquire *a, struct dl_session *session)
{
    struct dlock_grant grant = {0};
    int64_t sent_ns;
    enum dlock_status status = request_begin(a);

    if (status != DLOCK_OK) {
        dl_claim_session_put(a->lock->client, a->lock->claim, DL_USE_ACQUIRE, session, DLOCK_OK);
        dl_acquire_steps_no_session(a, status);
        return;
    }
    sent_ns = dl_acquire_steps_now(a);
    status = try_call(a, session, sent_ns, &grant);
    tried(a, sent_ns, status, &grant);
}

bool dl_acquire_steps_session_take(struct dl_acquire *a, struct dl_session **out)
{
    enum dlock_status status = dl_claim_session(a->lock->client, a->lock->claim, DL_USE_ACQUIRE,
                                                dl_acquire_steps_session_until(a), out, a->err);

    if (status != DLOCK_OK)
        dl_acquire_steps_no_session(a, status);
    return status == DLOCK_OK;
}

static void step_try(struct dl_acquire *a)
{
    struct dl_session *session = NULL;

    if (dl_acquire_steps_session_take(a, &session))
        dl_acquire_steps_try(a, session);
}

/* A client that was opened lazily learns only now what its store can do. */
static void step_connect(struct dl_acquire *a)
{
    struct dl_pool *pool = &a->lock->client->pool;
    struct dl_session *session = NULL;
    enum dlock_status status =
        dl_session_pool_take(pool, DL_USE_ACQUIRE, a->attempt.until_ns, &session, a->err);

    if (status == DLOCK_OK) {
        dl_session_pool_put(pool, DL_USE_ACQUIRE, session, DLOCK_OK);
        status = dl_handle_supported(a->lock, a->lock->claim->req.mode, a->err);
    }
    if (status == DLOCK_OK) {
        struct dl_acquire_fsm_rules rules = rules_of(a, a->attempt.rules.wait);

        dl_acquire_fsm_connected(&a->attempt, dl_acquire_steps_now(a), &rules);
    } else {
        dl_acquire_fsm_no_session(&a->attempt, dl_acquire_steps_now(a), status,
                                  dl_client_random(a->lock->client));
    }
    failure_note(a);
}

/* Takes over the claim of another handle, with the rest of its lease. */
static void take_over(struct dl_acquire *a)
{
    struct dl_claim *claim = a->lock->claim;

    a->begun = true;
    dl_acquire_steps_entry_set(
        a, false); /* the handle that handed the lease on withdraws our queue entry */
    a->granted =
        (struct dl_acquire_granted){.fence = claim->fence == 0 ? 0 : claim->fence + claim->handoffs,
                                    .lease_ms = a->lock->renewal.lease_ms};
    dl_acquire_fsm_holds(&a->attempt, dl_acquire_steps_now(a), a->waiting.handed_until_ns,
                         a->granted.lease_ms);
}

/* Tries once: if the try fails, the store ends the lease by itself (C4). until_ns: 0: not even
 * once. */
static void step_return(struct dl_acquire *a, int64_t until_ns)
{
    if (until_ns != 0) {
        dl_claim_give_back(a->lock->client, a->lock->claim, DL_USE_HOLDER, until_ns);
    } else {
        a->lock->claim->enqueued = false;
        abandon(a, DLOCK_UNKNOWN);
    }
    a->begun = false;
    dl_acquire_steps_entry_set(a, false);
    (void)pthread_mutex_lock(&a->lock->client->mutex);
    dl_held_uncount_locked(a->lock); /* the lease may have come by a hand-off */
    (void)pthread_mutex_unlock(&a->lock->client->mutex);
    dl_acquire_fsm_returned(&a->attempt, dl_acquire_steps_now(a));
}

static void granted_locked(struct dl_acquire *a)
{
    struct dlock_handle *lock = a->lock;
    struct dl_claim *claim = lock->claim;
    const struct dlock_grant grant = {.fence = a->granted.fence,
                                      .lease_ms = a->granted.lease_ms,
                                      .permit = a->granted.permit,
                                      .waiters = a->granted.waiters};

    claim->enqueued = false;
    if (!lock->is_holder) { /* from the store */
        claim->fence = grant.fence;
        claim->fence_room = a->granted.fence_room;
        claim->handoffs = 0;
        dl_name_state_note_grant(lock->name, dl_held_waiters(lock, &grant),
                                 lock->name->queue_entries, a->now_ns);
        dl_held_count_locked(lock);
    } else {
        dl_stats_count_locked(&lock->name->stats->handoffs);
        DL_PROBE(handoff, lock, grant.fence, claim->handoffs);
    }
    dl_held_granted_locked(lock, a->now_ns, a->attempt.valid_until_ns, &grant);
    dl_stats_time_locked(&lock->name->stats->waits, a->now_ns - a->begun_ns);
    DL_PROBE(granted, lock, grant.fence, a->now_ns - a->begun_ns);
}

void dl_acquire_steps_admitted_locked(struct dl_acquire *a, bool wait)
{
    const struct dlock_handle *lock = a->lock;

    a->waits_for_handoff = wait && lock->options->limit == 1 &&
                           dl_name_state_held_against(lock->name, lock->claim->req.mode);
    a->failing = lock->name->failure;
}

void dl_acquire_steps_start(struct dl_acquire *a, bool wait, int64_t deadline_ns)
{
    struct dl_acquire_fsm_rules rules = rules_of(a, wait);

    dl_acquire_fsm_start(&a->attempt, &rules, a->now_ns, deadline_ns);
}

bool dl_acquire_steps_recheck(struct dl_acquire *a)
{
    enum dlock_status cancel;

    if (dl_local_waiter_recheck(a->lock, !a->waits_for_handoff, &cancel)) {
        take_over(a);
        return true;
    }
    if (cancel != DLOCK_OK && a->attempt.step != DL_STEP_RETURN) {
        dl_acquire_fsm_cancel(&a->attempt, dl_acquire_steps_now(a), cancel);
        (void)dl_error(a->err, cancel, "%s", dlock_status_text((int)cancel));
        return true;
    }
    return false;
}

bool dl_acquire_steps_shared(struct dl_acquire *a)
{
    if (a->waits_for_handoff)
        return false;
    switch (a->attempt.step) {
    case DL_STEP_CONNECT:
        step_connect(a);
        return true;
    case DL_STEP_TRY:
    case DL_STEP_LOCK:
    case DL_STEP_REFRESH:
        step_try(a);
        return true;
    case DL_STEP_RETURN:
        step_return(a, a->attempt.until_ns);
        return true;
    default:
        return false;
    }
}

void dl_acquire_steps_return_until(struct dl_acquire *a, int64_t until_ns)
{
    if (a->attempt.step == DL_STEP_RETURN)
        a->attempt.until_ns = dl_later(a->attempt.until_ns, until_ns);
}

void dl_acquire_steps_skip(struct dl_acquire *a)
{
    if (a->attempt.step == DL_STEP_RETURN) {
        /* [TET-3] The plugin has to know of the lease: it does not end by itself. */
        step_return(a, dl_client_has(a->lock->client, DLOCK_CAP_TETHERED)
                           ? dl_earlier(a->attempt.until_ns, dl_acquire_steps_now(a) + DL_GRACE_NS)
                           : 0);
        return;
    }
    (void)dl_error(a->err, DLOCK_UNAVAILABLE, "the store did not answer another operation");
    dl_acquire_steps_no_session(a, DLOCK_UNAVAILABLE);
}

void dl_acquire_steps_conclude(struct dl_acquire *a, enum dlock_status status)
{
    dl_acquire_steps_entry_set(a, false);
    if (status != DLOCK_OK) {
        abandon(a, status);
        acquire_text_end(&a->text, status, a->err);
    }
    acquire_text_fini(&a->text);
}

void dl_acquire_steps_end_locked(struct dl_acquire *a, enum dlock_status status)
{
    struct dl_stats_class *stats = a->lock->name->stats;

    dl_local_waiter_unlink_locked(a->lock);
    dl_held_idle_locked(a->lock);
    dl_stats_uncount_locked(&stats->waiting);
    dl_stats_outcome_locked(stats->acquisitions, (int)status);
    if (status == DLOCK_OK) /* in one step: no thread sees a handle that is held and acquiring */
        granted_locked(a);
    else
        dl_held_uncount_locked(a->lock);
}
