/* SPDX-License-Identifier: MIT */
#include "hold/unlock.h"
#include "hold/handoff.h"
#include "hold/held.h"
#include "hold/operation.h"
#include "hold/release_fsm.h"
#include "hold/renew_schedule.h"
#include "sys/error.h"

static void release_send(struct dlock *lock, struct dl_release_fsm *release,
                         struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct dl_claim *claim = lock->claim;
    struct dl_session *session;
    enum dlock_status status =
        dl_claim_session(client, claim, DL_USE_HOLDER, release->deadline_ns, &session, err);

    if (status == DLOCK_OK) {
        status = dl_claim_unlock(client, claim, DL_USE_HOLDER, session, release->deadline_ns, err);
        dl_handle_answered(lock, status);
        dl_release_fsm_answered(release, dl_client_now(client), status);
    } else {
        dl_claim_forget(client, claim);
        dl_release_fsm_no_session(release, status);
    }
}

/* Sends the release by token, and repeats it until deadline_ns. again: after an earlier unlock. A
 * lease that is gone was kept only by an unlock that may have been executed (C22). */
static enum dlock_status unlock_exchange(struct dlock *lock, int64_t deadline_ns, bool again,
                                         struct dlock_error *err)
{
    struct dl_release_fsm release;
    bool keeps = lock->claim->keep_until_ns > dl_client_now(lock->client);

    dl_release_fsm_start(&release, deadline_ns, lock->claim->lease_session != NULL,
                         again && (!keeps || lock->may_be_kept));
    release.tethered = !keeps && dl_client_has(lock->client, DLOCK_CAP_TETHERED);
    while (release.step != DL_RELEASE_DONE) {
        if (release.step == DL_RELEASE_SEND) {
            release_send(lock, &release, err);
        } else {
            dl_clock_pause(DL_RELEASE_PAUSE_NS);
            dl_release_fsm_paused(&release, dl_client_now(lock->client));
        }
    }
    return release.result;
}

static bool phase_ends(const struct dlock *lock)
{
    return lock->phase != DL_PHASE_IDLE && lock->phase != DL_PHASE_ACQUIRING &&
           !lock->client->closed;
}

/* Waits until no call is made on the handle. ends: no renewal may begin any more. *now_ns: the time
 * after the wait. */
static void await_phase_locked(struct dlock *lock, bool ends, int64_t *now_ns)
{
    if (!phase_ends(lock))
        return;
    lock->ending += ends;
    while (phase_ends(lock))
        dl_handle_await_change_locked(lock);
    lock->ending -= ends;
    dl_renew_schedule_resume_locked(lock); /* if the claim does not end after all */
    *now_ns = dl_client_now(lock->client);
}

static void await_renewer_locked(struct dlock *lock, int64_t *now_ns)
{
    if (!lock->renewer_busy)
        return;
    while (lock->renewer_busy)
        dl_handle_sleep_locked(lock, DL_NEVER);
    *now_ns = dl_client_now(lock->client);
}

/* The rest of the work when the claim has ended. */
enum ending {
    ENDING_NOTHING,   /* no work: the status is known */
    ENDING_RELEASE,   /* release the lease in the store */
    ENDING_LOST,      /* none: the loss is acknowledged */
    ENDING_GIVE_BACK, /* the same, and give back a lease that the store may keep */
    ENDING_HANDED     /* another handle has the lease; clean up its old claim */
};

/* Counts a loss that nobody has found before. */
static void run_out_count_locked(struct dlock *lock, int64_t now_ns)
{
    bool max_hold = now_ns >= lock->renewal.hold_until_ns;

    if (!lock->reported)
        dl_held_lost_locked(lock, max_hold ? DLOCK_REASON_MAX_HOLD : DLOCK_REASON_EXPIRED, now_ns);
}

/* The status of the unlock is the report, unless the loss was reported before. */
static void loss_acknowledge_locked(struct dlock *lock, int64_t now_ns)
{
    dl_events_remove(&lock->client->events, &lock->event);
    run_out_count_locked(lock, now_ns);
    if (!lock->reported)
        dl_held_run_out_locked(lock);
    lock->reported = true;
}

/* Counts the end of a claim. */
static void ended_count_locked(struct dlock *lock, enum ending ending, bool again,
                               enum dlock_status status)
{
    dl_stats_outcome_locked(lock->name->stats->unlocks, (int)status);
    DL_PROBE(unlock, lock, status, ending == ENDING_HANDED);
    if (ending == ENDING_RELEASE && status == DLOCK_LOST && !again) /* nobody knew before */
        dl_held_lost_locked(lock, dl_held_reason_gone(lock), dl_client_now(lock->client));
}

/* Ends the claim. The handle is then in the phase RELEASING, except after NOTHING. *now_ns: the
 * time after the waits. */
static enum ending unlock_begin_locked(struct dlock *lock, bool whole, int64_t *now_ns,
                                       enum dlock_status *status, struct dlock_error *err)
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
        return ENDING_NOTHING;
    state = dl_lease_state(&lock->lease, *now_ns);
    if (state == DLOCK_STATE_FREE && !lock->repeatable) {
        *status = dl_error(err, DLOCK_NOT_HELD, "the handle does not hold the lock");
        return ENDING_NOTHING;
    }
    if (state == DLOCK_STATE_LOST)
        *status = dl_error(err, DLOCK_LOST, "the lock was lost");
    if (whole)
        lock->depth = 0;
    if (lock->depth > 0) {
        lock->depth--;
        return ENDING_NOTHING;
    }
    lock->phase = DL_PHASE_RELEASING;
    if (state == DLOCK_STATE_FREE)
        return ENDING_RELEASE;
    lock->may_be_kept = false;
    if (dl_handoff_locked(lock, *now_ns))
        return ENDING_HANDED;
    if (state != DLOCK_STATE_LOST && lock->keep_ms > 0)
        lock->claim->keep_until_ns = lock->since_ns + lock->keep_ms * DL_NS_PER_MS;
    dl_held_end_locked(lock, *now_ns);
    if (state == DLOCK_STATE_LOST)
        loss_acknowledge_locked(lock, *now_ns);
    await_renewer_locked(lock, now_ns); /* C14: the renewal ends before the release begins */
    if (dl_renew_schedule_take_give_back_locked(lock))
        return ENDING_GIVE_BACK;
    return state == DLOCK_STATE_LOST ? ENDING_LOST : ENDING_RELEASE;
}

static enum dlock_status release_locked(struct dlock *lock, bool whole, int64_t until_ns,
                                        struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    int64_t now_ns = dl_client_now(client);
    int64_t deadline_ns =
        dl_earlier(until_ns, dl_clock_after_ms(now_ns, dl_handle_op_timeout_ms(lock)));
    bool asks = until_ns > now_ns;
    enum dlock_status status;
    enum ending ending = unlock_begin_locked(lock, whole, &now_ns, &status, err);
    bool again = lock->repeatable;

    if (ending == ENDING_NOTHING)
        return status;
    if (deadline_ns < now_ns + DL_GRACE_NS) /* the wait for a renewal took the time */
        deadline_ns = now_ns + DL_GRACE_NS;
    (void)pthread_mutex_unlock(&client->mutex);
    if (ending == ENDING_RELEASE && asks)
        status = unlock_exchange(lock, deadline_ns, again, err);
    else if (ending == ENDING_RELEASE)
        status = dl_error(err, DLOCK_UNAVAILABLE, "the store was not asked");
    else if (!asks)
        lock->claim->enqueued = false; /* the queue entry ends by itself */
    else if (ending == ENDING_GIVE_BACK || (ending == ENDING_HANDED && lock->claim->enqueued))
        dl_claim_give_back(client, lock->claim, DL_USE_HOLDER, deadline_ns);
    dl_claim_forget(client, lock->claim);
    dl_claim_lease_session_put(client, lock->claim, status);
    (void)pthread_mutex_lock(&client->mutex);
    lock->may_be_kept |= status == DLOCK_UNKNOWN;
    lock->repeatable =
        status != DLOCK_OK && status != DLOCK_LOST && !dl_client_has(client, DLOCK_CAP_SESSION);
    ended_count_locked(lock, ending, again, status);
    dl_held_uncount_locked(lock);
    dl_held_idle_locked(lock);
    return status;
}

enum dlock_status dl_unlock_whole_locked(struct dlock *lock, int64_t until_ns,
                                         struct dlock_error *err)
{
    return release_locked(lock, true, until_ns, err);
}

enum dlock_status dl_unlock(struct dlock *lock, int64_t until_ns, struct dlock_error *err)
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
