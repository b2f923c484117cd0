/* SPDX-License-Identifier: MIT */
#include "hold/unlock.h"
#include "hold/handoff.h"
#include "hold/held.h"
#include "hold/operation.h"
#include "hold/renew_schedule.h"
#include "hold/renewer.h"
#include "sys/error.h"

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
            dl_unlock_batch_step(&unlock->release);
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
    if (dl_handoff_locked(lock, *now_ns))
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
    return lock->must_give_back || dl_handoff_withdraws_locked(lock, dl_client_now(lock->client));
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
