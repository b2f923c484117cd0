/* SPDX-License-Identifier: MIT */
#include "hold/unlock.h"
#include "hold/held.h"
#include "hold/lease.h"
#include "hold/operation.h"
#include "hold/renew_schedule.h"
#include "hold/renewer.h"
#include "session/dispatch.h"
#include "sys/error.h"

/*
 * A hand-off: an unlock gives the lease to the next thread of the same client, with no
 * exchange.
 *
 * The first waiter of the name gets the whole claim: token, memory of the plugin, session and the
 * rest of the lease; the giver gets the unused claim of the receiver. Each hand-off has a fence of
 * its own, from the block of fences that came with the grant (C6). Two limits keep other clients
 * from starving: a number of hand-offs, and a total time, which is short if the store reports other
 * waiters, and somewhat longer if the store does not know. A lease that the store has not confirmed
 * for a second goes back: it may have been broken since, and another client may hold the name. A
 * claim whose token the application has read goes back to the store: that token must not hold
 * anything afterwards (C7). The permits of a semaphore go back, too, so that a waiter gets the
 * lowest one that is free (C21), and so does a name that is to be kept (C22).
 */

/* While other clients wait, hand-offs go on for at most this time. */
#define CONTENDED_MOST_NS (20 * DL_NS_PER_MS)

/* A lease may be handed on within this time after the store has confirmed it. */
#define CONFIRMED_NS DL_NS_PER_S

bool dl_unlock_handoff_allowed(const struct dl_unlock_handoff *input)
{
    if (input->handoffs >= input->handoffs_most)
        return false;
    /* The last number is for a program that adopts the lease. */
    if (input->fence != 0 && input->handoffs + 1 >= input->fence_room)
        return false;
    if (input->contended_since_ns != DL_NEVER &&
        input->now_ns - input->contended_since_ns >= CONTENDED_MOST_NS)
        return false;
    if (input->now_ns < input->confirmed_ns || input->now_ns - input->confirmed_ns >= CONFIRMED_NS)
        return false;
    return input->left_ns > input->ttl_ns / 2;
}

/* The handle that would get the lease: the first waiter, if it has no request in progress in the
 * store. */
static struct dlock_handle *receiver_of(struct dlock_handle *lock)
{
    struct dl_local_waiter *waiter = lock->name->queue.first;
    struct dl_waiting *waiting;

    if (waiter == NULL || waiter->mode != DLOCK_EXCLUSIVE)
        return NULL;
    waiting = dl_handle_waiting(waiter);
    return waiting->ready && !waiting->handed && waiting->cancel == DLOCK_OK ? waiting->lock : NULL;
}

/* Whether `to` may have the lease of lock. */
static bool may_get_locked(struct dlock_handle *lock, const struct dlock_handle *to, int64_t now_ns)
{
    const struct dl_claim *claim = lock->claim;
    struct dl_unlock_handoff input;

    if (lock->options->limit > 1 || to->options->limit > 1 || lock->keep_ms > 0 ||
        claim->req.data_len > 0 || to->options->data_len > 0)
        return false;
    if (lock->renewer_busy || claim->token_exported || claim->req.mode != DLOCK_EXCLUSIVE ||
        claim->req.ttl_ms != dl_handle_ttl_ms(to) || claim->req.end != to->options->end ||
        (to->options->must_fence && claim->fence == 0) ||
        dl_client_has(lock->client, DLOCK_CAP_SESSION) ||
        dl_lease_state(&lock->lease, now_ns) != DLOCK_STATE_HELD)
        return false;
    input = (struct dl_unlock_handoff){
        .handoffs = claim->handoffs,
        .handoffs_most = lock->options->handoff < to->options->handoff ? lock->options->handoff
                                                                       : to->options->handoff,
        .fence = claim->fence,
        .fence_room = claim->fence_room,
        .now_ns = now_ns,
        .contended_since_ns = lock->name->contended_since_ns,
        .ttl_ns = lock->renewal.lease_ms * DL_NS_PER_MS,
    };
    input.left_ns = dl_lease_until_ns(&lock->lease) - input.now_ns;
    input.confirmed_ns = dl_lease_until_ns(&lock->lease) -
                         dl_lease_valid_until_ns(0, lock->renewal.lease_ms, lock->renewal.margin);
    return dl_unlock_handoff_allowed(&input);
}

/* Whether a hand-off by lock is possible now, and would leave a queue entry in the store: that of
 * the receiver. */
static bool unlock_handoff_withdraws_locked(struct dlock_handle *lock, int64_t now_ns)
{
    const struct dlock_handle *to = receiver_of(lock);

    return to != NULL && to->claim->enqueued && may_get_locked(lock, to, now_ns);
}

static void claims_swap(struct dlock_handle *from, struct dlock_handle *to)
{
    struct dl_claim *claim = from->claim;

    from->claim = to->claim;
    to->claim = claim;
    claim->handoffs++;
    dl_handle_mark_claim(from);
    dl_handle_mark_claim(to);
}

/* Hands on the lease of lock, which is held and about to be released. false: it is not possible. */
static bool unlock_handoff_locked(struct dlock_handle *lock, int64_t now_ns)
{
    struct dlock_handle *to = receiver_of(lock);

    if (to == NULL || !may_get_locked(lock, to, now_ns))
        return false;
    to->waiting->handed = true;
    to->waiting->handed_until_ns = dl_lease_until_ns(&lock->lease);
    to->renewal.lease_ms = lock->renewal.lease_ms;
    dl_held_end_locked(lock, now_ns);
    claims_swap(lock, to);
    dl_held_count_moved_locked(lock, to);
    dl_handle_changed_locked(to);
    return true;
}

bool dl_unlock_batch_is_there(const struct dlock_client *client)
{
    const struct dlock_backend_ops *ops = &client->plugin->ops;

    return ops->trylock_batch != NULL && ops->unlock_batch != NULL &&
           !dl_client_has(client, DLOCK_CAP_SESSION);
}

bool dl_unlock_batch_is_close(int64_t a_ns, int64_t b_ns)
{
    return a_ns - b_ns <= DL_BATCH_SPREAD_NS / 2 && b_ns - a_ns <= DL_BATCH_SPREAD_NS / 2;
}

static void answered(struct dl_release *release, enum dlock_status status)
{
    dl_handle_answered(release->lock, status);
    dl_release_fsm_answered(&release->fsm, dl_client_now(release->lock->client), status);
}

static void no_session(struct dl_release *release, enum dlock_status status,
                       const struct dlock_error *err)
{
    *release->err = *err;
    dl_release_fsm_no_session(&release->fsm, status);
}

static void exchange(struct dlock_client *client, struct dl_session *session,
                     struct dl_release *const *releases, size_t n)
{
    struct dlock_batch_op elements[DL_BATCH_MOST], *ops[DL_BATCH_MOST] = {NULL};

    for (size_t i = 0; i < n; i++) {
        struct dl_claim *claim = releases[i]->lock->claim;

        dl_claim_unlock_request(client, claim, releases[i]->fsm.deadline_ns);
        elements[i] = (struct dlock_batch_op){.req = &claim->req, .err = releases[i]->err};
        ops[i] = &elements[i];
    }
    dl_dispatch_unlock_batch(client->plugin, session->self, ops, n);
    dl_session_pool_put(&client->pool, DL_USE_HOLDER, session, dl_claim_batch_worst(ops, n));
    for (size_t i = 0; i < n; i++) {
        dl_claim_unlocked(releases[i]->lock->claim, elements[i].status);
        answered(releases[i], elements[i].status);
    }
}

void dl_unlock_batch_send(struct dl_release *const *releases, size_t n)
{
    struct dlock_client *client = releases[0]->lock->client;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dl_session *session = NULL;
    int64_t until_ns = DL_NEVER;
    enum dlock_status status;

    for (size_t i = 0; i < n; i++)
        until_ns = dl_earlier(until_ns, releases[i]->fsm.deadline_ns);
    status = dl_session_pool_take(&client->pool, DL_USE_HOLDER, until_ns, &session, &err);
    if (status == DLOCK_OK)
        exchange(client, session, releases, n);
    for (size_t i = 0; status != DLOCK_OK && i < n; i++)
        no_session(releases[i], status, &err);
}

static void send_alone(struct dl_release *release, struct dl_session *session)
{
    struct dlock_handle *lock = release->lock;

    answered(release, dl_claim_unlock(lock->client, lock->claim, DL_USE_HOLDER, session,
                                      release->fsm.deadline_ns, release->err));
}

static struct dl_session *session_take(struct dl_release *release)
{
    struct dlock_handle *lock = release->lock;
    struct dl_session *session = NULL;
    enum dlock_status status = dl_claim_session(lock->client, lock->claim, DL_USE_HOLDER,
                                                release->fsm.deadline_ns, &session, release->err);

    if (status == DLOCK_OK)
        return session;
    dl_release_fsm_no_session(&release->fsm, status);
    return NULL;
}

static bool is_close(const void *request, const void *arg)
{
    const struct dl_release *release = request, *first = arg;

    return dl_unlock_batch_is_close(release->fsm.deadline_ns, first->fsm.deadline_ns);
}

/* In front of the line. */
static struct dl_wait_fifo_waiter *lead(struct dl_release *release)
{
    struct dlock_client *client = release->lock->client;
    struct dl_session *session = session_take(release);
    struct dl_release *releases[DL_BATCH_MOST] = {release};
    struct dl_wait_fifo_waiter *chain = NULL;
    size_t n = 1;

    if (session == NULL)
        return NULL;
    n += dl_wait_combine_take(&client->releases, is_close, release, (void **)(releases + 1),
                              DL_BATCH_MOST - 1, &chain);
    if (n == 1)
        send_alone(release, session);
    else
        exchange(client, session, releases, n);
    return chain;
}

/* What is wrong with the name may last, and is nothing to others; nor is time left for the line. */
static bool is_repeated(const struct dl_release_fsm *fsm)
{
    return fsm->uncertain || fsm->result != DLOCK_UNKNOWN;
}

/* Makes the exchange of one release, which is in DL_RELEASE_SEND. Threads that want to make theirs
 * at the same time share one, if the client can. */
static void unlock_batch_step(struct dl_release *release)
{
    struct dlock_client *client = release->lock->client;
    unsigned parallelism =
        release->alone || is_repeated(&release->fsm) ? 0 : dl_client_parallelism(client);
    struct dl_session *session = NULL;

    if (parallelism == 0) {
        session = session_take(release);
        if (session != NULL)
            send_alone(release, session);
    } else if (dl_wait_combine_enter(&client->releases, parallelism, &client->host.clock, release,
                                     release->fsm.deadline_ns)) {
        dl_wait_combine_end(&client->releases, parallelism, lead(release));
    }
}

/* A lease that is gone was kept only by an unlock that may have been executed (C22). */
static void release_begin_locked(struct dl_unlock *unlock)
{
    struct dlock_handle *lock = unlock->lock;
    bool keeps = lock->claim->keep_until_ns > dl_client_now(lock->client);

    unlock->release.lock = lock;
    unlock->release.alone =
        dl_operation_in_progress(lock->operation) || dl_renewer_is_self_locked(lock->client);
    unlock->release.err = unlock->err;
    dl_release_fsm_start(&unlock->release.fsm, unlock->deadline_ns,
                         lock->claim->lease_session != NULL,
                         unlock->again && (!keeps || lock->may_be_kept));
    unlock->release.fsm.tethered = !keeps && dl_client_has(lock->client, DLOCK_CAP_TETHERED);
}

/* Sends the release by token, and repeats it until the deadline. */
static enum dlock_status unlock_exchange(struct dl_unlock *unlock)
{
    struct dl_release_fsm *fsm = &unlock->release.fsm;

    while (fsm->step != DL_RELEASE_DONE) {
        if (fsm->step == DL_RELEASE_SEND) {
            unlock_batch_step(&unlock->release);
        } else {
            dl_clock_pause(DL_RELEASE_PAUSE_NS);
            dl_release_fsm_paused(fsm, dl_client_now(unlock->lock->client));
        }
    }
    return fsm->result;
}

static bool phase_ends(const struct dlock_handle *lock)
{
    return lock->phase != DL_PHASE_IDLE && lock->phase != DL_PHASE_ACQUIRING &&
           !lock->client->closed;
}

/* Waits until no call is made on the handle. ends: no renewal may begin any more. *now_ns: the time
 * after the wait. */
static void await_phase_locked(struct dlock_handle *lock, bool ends, int64_t *now_ns)
{
    if (!phase_ends(lock))
        return;
    if (ends)
        lock->ending++;
    while (phase_ends(lock))
        dl_handle_await_change_locked(lock);
    if (ends)
        lock->ending--;
    dl_renew_schedule_resume_locked(lock); /* if the claim does not end after all */
    *now_ns = dl_client_now(lock->client);
}

static void await_renewer_locked(struct dlock_handle *lock, int64_t *now_ns)
{
    if (!lock->renewer_busy)
        return;
    while (lock->renewer_busy)
        dl_handle_sleep_locked(lock, DL_NEVER);
    *now_ns = dl_client_now(lock->client);
}

/* Counts a loss that nobody has found before. */
static void run_out_count_locked(struct dlock_handle *lock, int64_t now_ns)
{
    bool max_hold = now_ns >= lock->renewal.hold_until_ns;

    if (!lock->reported)
        dl_held_lost_locked(lock, max_hold ? DLOCK_REASON_MAX_HOLD : DLOCK_REASON_EXPIRED, now_ns);
}

/* The status of the unlock is the report, unless the loss was reported before. */
static void loss_acknowledge_locked(struct dlock_handle *lock, int64_t now_ns)
{
    dl_events_remove(&lock->client->events, &lock->event);
    run_out_count_locked(lock, now_ns);
    if (!lock->reported)
        dl_held_run_out_locked(lock);
    lock->reported = true;
}

/* Counts the end of a claim. */
static void ended_count_locked(struct dlock_handle *lock, enum dl_unlock_ending ending, bool again,
                               enum dlock_status status)
{
    dl_stats_outcome_locked(lock->name->stats->unlocks, (int)status);
    DL_PROBE(unlock, lock, status, ending == DL_UNLOCK_HANDED);
    if (ending == DL_UNLOCK_RELEASE && status == DLOCK_LOST && !again) /* nobody knew before */
        dl_held_lost_locked(lock, dl_held_reason_gone(lock), dl_client_now(lock->client));
}

/* Ends the claim. The handle is then in the phase RELEASING, except after NOTHING. *now_ns: the
 * time after the waits. */
static enum dl_unlock_ending unlock_begin_locked(struct dlock_handle *lock, bool whole,
                                                 int64_t *now_ns, enum dlock_status *status,
                                                 struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_state state;

    *status = DLOCK_OK;
    await_phase_locked(lock, whole || lock->depth == 0, now_ns);
    if (client->closed)
        *status = dl_error(err, DLOCK_CLOSED, "the client is closed");
    else if (lock->phase == DL_PHASE_ACQUIRING) /* also if it began while this call waited */
        *status = dl_error(err, DLOCK_ALREADY, "another thread is acquiring with this handle");
    if (*status != DLOCK_OK)
        return DL_UNLOCK_NOTHING;
    state = dl_lease_state(&lock->lease, *now_ns);
    if (state == DLOCK_STATE_FREE && !lock->repeatable) {
        *status = dl_error(err, DLOCK_NOT_HELD, "the handle does not hold the lock");
        return DL_UNLOCK_NOTHING;
    }
    if (state == DLOCK_STATE_LOST)
        *status = dl_error(err, DLOCK_LOST, "the lock was lost");
    if (whole)
        lock->depth = 0;
    if (lock->depth > 0) {
        lock->depth--;
        return DL_UNLOCK_NOTHING;
    }
    lock->phase = DL_PHASE_RELEASING;
    if (state == DLOCK_STATE_FREE)
        return DL_UNLOCK_RELEASE;
    lock->may_be_kept = false;
    if (unlock_handoff_locked(lock, *now_ns))
        return DL_UNLOCK_HANDED;
    if (state != DLOCK_STATE_LOST && lock->keep_ms > 0)
        lock->claim->keep_until_ns = lock->since_ns + lock->keep_ms * DL_NS_PER_MS;
    dl_held_end_locked(lock, *now_ns);
    if (state == DLOCK_STATE_LOST)
        loss_acknowledge_locked(lock, *now_ns);
    await_renewer_locked(lock, now_ns); /* C14: the renewal ends before the release begins */
    if (dl_renew_schedule_take_give_back_locked(lock))
        return DL_UNLOCK_GIVE_BACK;
    return state == DLOCK_STATE_LOST ? DL_UNLOCK_LOST : DL_UNLOCK_RELEASE;
}

bool dl_unlock_waits_locked(const struct dlock_handle *lock)
{
    return phase_ends(lock) || lock->renewer_busy;
}

bool dl_unlock_withdraws_locked(struct dlock_handle *lock)
{
    return lock->must_give_back ||
           unlock_handoff_withdraws_locked(lock, dl_client_now(lock->client));
}

void dl_unlock_begin_locked(struct dl_unlock *unlock, struct dlock_handle *lock, bool whole,
                            int64_t until_ns, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    int64_t now_ns = dl_client_now(client);

    *unlock = (struct dl_unlock){.lock = lock, .err = err, .asks = until_ns > now_ns};
    unlock->deadline_ns =
        dl_earlier(until_ns, dl_clock_after_ms(now_ns, dl_handle_op_timeout_ms(lock)));
    unlock->ending = unlock_begin_locked(lock, whole, &now_ns, &unlock->status, err);
    unlock->again = lock->repeatable;
    if (unlock->deadline_ns < now_ns + DL_GRACE_NS) /* the wait for a renewal took the time */
        unlock->deadline_ns = now_ns + DL_GRACE_NS;
    if (unlock->ending == DL_UNLOCK_RELEASE && unlock->asks)
        release_begin_locked(unlock);
}

bool dl_unlock_is_release(const struct dl_unlock *unlock)
{
    return unlock->ending == DL_UNLOCK_RELEASE && unlock->asks &&
           unlock->lock->claim->lease_session == NULL;
}

static bool is_repeatable(const struct dlock_handle *lock, enum dlock_status status)
{
    return status != DLOCK_OK && status != DLOCK_LOST &&
           !dl_client_has(lock->client, DLOCK_CAP_SESSION);
}

/* A lease that is still to be kept has to last until the unlock is repeated (C22): what the plugin
 * has of the attempt may carry it. */
static bool lease_is_due(const struct dl_unlock *unlock)
{
    const struct dlock_handle *lock = unlock->lock;

    return unlock->ending == DL_UNLOCK_RELEASE && is_repeatable(lock, unlock->status) &&
           lock->claim->keep_until_ns > dl_client_now(lock->client);
}

void dl_unlock_released(struct dl_unlock *unlock)
{
    struct dlock_handle *lock = unlock->lock;

    if (!lease_is_due(unlock))
        dl_claim_forget(lock->client, lock->claim);
    dl_claim_lease_session_put(lock->client, lock->claim, unlock->status);
}

bool dl_unlock_pends_locked(const struct dlock_handle *lock)
{
    return lock->phase == DL_PHASE_IDLE && lock->repeatable && lock->claim->slot_used;
}

void dl_unlock_give_up_locked(struct dlock_handle *lock)
{
    struct dlock_client *client = lock->client;

    lock->phase = DL_PHASE_RELEASING;
    lock->repeatable = false;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_claim_forget(client, lock->claim);
    (void)pthread_mutex_lock(&client->mutex);
    dl_held_idle_locked(lock);
}

void dl_unlock_rest(struct dl_unlock *unlock)
{
    struct dl_claim *claim = unlock->lock->claim;

    if (unlock->ending == DL_UNLOCK_RELEASE && unlock->asks)
        unlock->status = unlock_exchange(unlock);
    else if (unlock->ending == DL_UNLOCK_RELEASE)
        unlock->status = dl_error(unlock->err, DLOCK_UNAVAILABLE, "the store was not asked");
    else if (!unlock->asks)
        claim->enqueued = false; /* the queue entry ends by itself */
    else if (unlock->ending == DL_UNLOCK_GIVE_BACK ||
             (unlock->ending == DL_UNLOCK_HANDED && claim->enqueued))
        dl_claim_give_back(unlock->lock->client, claim, DL_USE_HOLDER, unlock->deadline_ns);
    dl_unlock_released(unlock);
}

static bool may_be_executed(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_PROTOCOL || status == DLOCK_INTERNAL;
}

enum dlock_status dl_unlock_end_locked(struct dl_unlock *unlock)
{
    struct dlock_handle *lock = unlock->lock;
    enum dlock_status status = unlock->status;

    if (unlock->ending == DL_UNLOCK_NOTHING)
        return status;
    lock->may_be_kept |= may_be_executed(status);
    lock->repeatable = is_repeatable(lock, status);
    ended_count_locked(lock, unlock->ending, unlock->again, status);
    dl_held_uncount_locked(lock);
    dl_held_idle_locked(lock);
    return status;
}

static enum dlock_status release_locked(struct dlock_handle *lock, bool whole, int64_t until_ns,
                                        struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct dl_unlock unlock;

    dl_unlock_begin_locked(&unlock, lock, whole, until_ns, err);
    if (unlock.ending == DL_UNLOCK_NOTHING)
        return unlock.status;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_unlock_rest(&unlock);
    (void)pthread_mutex_lock(&client->mutex);
    return dl_unlock_end_locked(&unlock);
}

enum dlock_status dl_unlock_whole_locked(struct dlock_handle *lock, int64_t until_ns,
                                         struct dlock_error *err)
{
    return release_locked(lock, true, until_ns, err);
}

enum dlock_status dl_unlock(struct dlock_handle *lock, int64_t until_ns, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status;

    (void)pthread_mutex_lock(&client->mutex);
    status = dl_operation_bars_locked(lock->operation, err);
    if (status == DLOCK_OK)
        status = release_locked(lock, false, until_ns, err);
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}
