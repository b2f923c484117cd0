/* SPDX-License-Identifier: MIT */
#include "hold/held.h"
#include "hold/deadman.h"
#include "hold/operation.h"
#include "hold/renew_schedule.h"
#include "lib/text.h"
#include "sys/error.h"

#include <inttypes.h>

#define DEPTH_MOST UINT32_MAX

void dl_held_admit_locked(struct dlock_handle *lock)
{
    struct dl_local_queue *queue = &lock->name->queue;

    while (dl_local_queue_admit(queue) != NULL)
        continue;
    for (struct dl_local_waiter *waiter = queue->first; waiter != NULL && waiter->admitted;
         waiter = waiter->next)
        dl_handle_changed_locked(dl_handle_waiting(waiter)->lock);
}

static unsigned *counter_of(const struct dlock_handle *lock)
{
    return lock->is_reader ? &lock->name->readers : &lock->name->writers;
}

void dl_held_count_locked(struct dlock_handle *lock)
{
    if (lock->is_holder)
        return;
    lock->is_holder = true;
    lock->is_reader = lock->claim->req.mode == DLOCK_SHARED;
    ++*counter_of(lock);
}

void dl_held_uncount_locked(struct dlock_handle *lock)
{
    if (!lock->is_holder)
        return;
    --*counter_of(lock);
    lock->is_holder = false;
    dl_held_admit_locked(lock);
}

void dl_held_count_moved_locked(struct dlock_handle *from, struct dlock_handle *to)
{
    to->is_holder = from->is_holder;
    to->is_reader = from->is_reader;
    from->is_holder = false;
}

void dl_held_downgrade_locked(struct dlock_handle *lock)
{
    lock->claim->req.mode = DLOCK_SHARED;
    lock->downgrading = true;
}

enum dlock_status dl_held_again_locked(struct dlock_handle *lock, enum dlock_mode mode,
                                       struct dlock_error *err)
{
    enum dlock_state state;

    if (!lock->options->recursive || lock->client->shutdown ||
        (lock->phase != DL_PHASE_IDLE && lock->phase != DL_PHASE_RENEWING))
        return DLOCK_NOT_HELD;
    state = dl_lease_state(&lock->lease, dl_client_now(lock->client));
    if (state != DLOCK_STATE_HELD && state != DLOCK_STATE_DOUBTFUL)
        return DLOCK_NOT_HELD;
    if (lock->claim->req.mode == DLOCK_SHARED && mode == DLOCK_EXCLUSIVE)
        return dl_error(err, DLOCK_ALREADY, "this handle holds the lock shared");
    if (lock->depth == DEPTH_MOST)
        return dl_error(err, DLOCK_INVALID, "acquired %u times already", lock->depth);
    lock->depth++;
    return DLOCK_OK;
}

void dl_held_idle_locked(struct dlock_handle *lock)
{
    lock->client->acquiring -= lock->phase == DL_PHASE_ACQUIRING;
    lock->phase = DL_PHASE_IDLE;
    lock->waiting = NULL;
    dl_renew_schedule_resume_locked(lock);
    if (lock->must_give_back)
        dl_renew_schedule_wake_locked(lock->client);
    dl_handle_changed_locked(lock);
    if (lock->client->shutdown)
        (void)pthread_cond_broadcast(&lock->client->call_ended);
}

/* The acquisition is over, if not by its lease before; counts it once. */
static void hold_over_locked(struct dlock_handle *lock, int64_t now_ns)
{
    struct dl_stats_class *stats = lock->name->stats;

    if (!lock->in_hold)
        return;
    lock->in_hold = false;
    dl_stats_uncount_locked(&stats->held);
    dl_stats_time_locked(&stats->holds,
                         dl_earlier(now_ns, dl_lease_until_ns(&lock->lease)) - lock->since_ns);
}

void dl_held_granted_locked(struct dlock_handle *lock, int64_t now_ns, int64_t until_ns,
                            const struct dlock_grant *grant)
{
    bool soon = grant->lease_ms < lock->claim->req.ttl_ms &&
                !dl_client_has(lock->client, DLOCK_CAP_SESSION);

    lock->repeatable = false;
    lock->downgrading = false;
    lock->depth = 0;
    lock->reported = false;
    lock->since_ns = now_ns;
    lock->in_hold = true;
    dl_stats_count_locked(&lock->name->stats->held);
    lock->keep_ms = lock->in_set ? 0 : lock->options->keep_ms;
    atomic_store(&lock->fence, grant->fence);
    atomic_store(&lock->permit, grant->permit);
    lock->renewal.hold_until_ns = lock->options->max_hold_ms == 0
                                      ? DL_NEVER
                                      : dl_clock_after_ms(now_ns, lock->options->max_hold_ms);
    dl_deadman_hold_locked(lock, dl_earlier(until_ns, lock->renewal.hold_until_ns));
    dl_renewal_granted(&lock->renewal, &lock->lease, now_ns, until_ns, grant->lease_ms, soon);
    dl_renew_schedule_hold_locked(lock);
}

enum dlock_status dl_held_keep(struct dlock_handle *lock, int64_t keep_ms, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = DLOCK_OK;
    enum dlock_state state = DLOCK_STATE_FREE;

    (void)pthread_mutex_lock(&client->mutex);
    state = dl_lease_state(&lock->lease, dl_client_now(client));
    if (state != DLOCK_STATE_HELD && state != DLOCK_STATE_DOUBTFUL)
        status = dl_error(err, DLOCK_NOT_HELD, "the handle does not hold the lock");
    else if (keep_ms > 0 && !dl_client_has(client, DLOCK_CAP_KEEP))
        status =
            dl_error(err, DLOCK_UNSUPPORTED, "this store cannot keep a name after its release");
    else if (keep_ms > 0 && lock->claim->req.mode == DLOCK_SHARED)
        status = dl_error(err, DLOCK_INVALID, "a shared lock cannot keep its name");
    else
        lock->keep_ms = keep_ms;
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

uint32_t dl_held_waiters(const struct dlock_handle *lock, const struct dlock_grant *grant)
{
    return grant->waiters == 0 && !lock->options->in_queue ? UINT32_MAX : grant->waiters;
}

static void extended_locked(struct dlock_handle *lock, int64_t now_ns,
                            const struct dlock_grant *grant)
{
    if (lock->downgrading) {
        lock->downgrading = false;
        dl_held_uncount_locked(lock);
        dl_held_count_locked(lock);
    }
    dl_name_state_note_waiters(lock->name, dl_held_waiters(lock, grant), lock->name->queue_entries,
                               now_ns);
}

/* Queues or drops the notice that the lock is doubtful. */
static void doubt_note_locked(struct dlock_handle *lock, bool doubtful)
{
    struct dl_operation *operation = lock->operation;

    if (operation == NULL)
        return;
    if (!doubtful)
        dl_events_remove(&lock->client->events, &operation->doubt);
    else if (operation->doubt.at == NULL && lock->client->on_lost == NULL)
        dl_events_push(&lock->client->events, &operation->doubt);
}

enum dlock_status dl_held_renewed_locked(struct dlock_handle *lock, int64_t sent_ns, int64_t now_ns,
                                         enum dlock_status status, const struct dlock_grant *grant,
                                         bool *stale)
{
    /* Of a renewal that failed the lease may be any number. */
    int64_t lease_ms = status == DLOCK_OK ? grant->lease_ms : 0;
    struct dl_renewal_answer answer = {sent_ns,
                                       now_ns,
                                       status,
                                       lease_ms,
                                       dl_handle_least_ns(lock, lease_ms),
                                       dl_client_random_locked(lock->client)};
    bool gone;
    bool was_held = dl_lease_state(&lock->lease, now_ns) == DLOCK_STATE_HELD;

    dl_stats_outcome_locked(lock->name->stats->renewals, (int)status);
    dl_handle_answered(lock, status);
    DL_PROBE(renew, lock, status, now_ns - sent_ns);
    status = dl_renewal_answered(&lock->renewal, &lock->lease, &answer, &gone, stale);
    if (gone) {
        dl_held_lose_locked(lock, dl_held_reason_gone(lock), now_ns);
    } else if (status == DLOCK_LOST) {
        (void)dl_held_due_locked(lock, now_ns, 0);
    } else {
        if (status == DLOCK_OK)
            extended_locked(lock, now_ns, grant);
        if (status == DLOCK_OK || was_held)
            doubt_note_locked(lock, dl_lease_state(&lock->lease, now_ns) == DLOCK_STATE_DOUBTFUL);
        dl_renew_schedule_hold_locked(lock);
    }
    return status;
}

bool dl_held_due_locked(struct dlock_handle *lock, int64_t now_ns, int64_t early_ns)
{
    switch (dl_renewal_due(&lock->renewal, &lock->lease, now_ns, early_ns,
                           lock->phase != DL_PHASE_IDLE || lock->ending > 0)) {
    case DL_DUE_RENEW:
        return true;
    case DL_DUE_LATER:
        dl_renew_schedule_hold_locked(lock);
        break;
    case DL_DUE_BUSY:
        dl_renew_schedule_set_locked(lock, dl_lease_until_ns(&lock->lease));
        break;
    case DL_DUE_GONE:
        dl_renew_schedule_remove_locked(lock);
        break;
    case DL_DUE_EXPIRED:
        dl_held_lose_locked(lock, DLOCK_REASON_EXPIRED, now_ns);
        break;
    case DL_DUE_MAX_HOLD:
        dl_held_lose_locked(lock, DLOCK_REASON_MAX_HOLD, now_ns);
        break;
    }
    return false;
}

void dl_held_run_out_locked(struct dlock_handle *lock)
{
    if (dl_client_has(lock->client, DLOCK_CAP_TETHERED) ||
        lock->claim->req.ttl_ms == DLOCK_TTL_NONE)
        dl_renew_schedule_must_give_back_locked(lock);
}

static const char *reason_text(enum dlock_reason reason)
{
    switch (reason) {
    case DLOCK_REASON_EXPIRED:
        return "its lease ended before a renewal was confirmed";
    case DLOCK_REASON_TAKEN:
        return "it was broken, or the store forgot it";
    case DLOCK_REASON_MAX_HOLD:
        return "max_hold is over";
    case DLOCK_REASON_SESSION:
        return "the session that carried it has ended";
    }
    return "";
}

static void loss_log_locked(struct dlock_handle *lock, enum dlock_reason reason, uint64_t fence,
                            int64_t now_ns)
{
    struct dlock_client *client = lock->client;
    char name[DL_NAME_TEXT], owner[DLOCK_TOKEN_CHARS];
    int64_t held_ns = dl_earlier(now_ns, dl_lease_until_ns(&lock->lease)) - lock->since_ns;

    dl_hex_encode(owner, lock->claim->req.token, DLOCK_TOKEN_SIZE);
    dl_log_lines_add_locked(
        &client->log_lines, &client->host.log,
        reason == DLOCK_REASON_MAX_HOLD ? DLOCK_LOG_INFO : DLOCK_LOG_WARNING,
        "%s: lock lost: %s; owner %s, fence %" PRIu64 ", held for %lld.%03lld s",
        dl_name_state_text(lock->name, name), reason_text(reason), owner, fence,
        (long long)(held_ns / DL_NS_PER_S), (long long)(held_ns % DL_NS_PER_S / DL_NS_PER_MS));
    if (client->log_lines.first != NULL)
        dl_renew_schedule_wake_locked(client);
}

void dl_held_lost_locked(struct dlock_handle *lock, enum dlock_reason reason, int64_t now_ns)
{
    uint64_t fence = atomic_load(&lock->fence);

    dl_stats_outcome_locked(lock->name->stats->losses, (int)reason);
    DL_PROBE(lost, lock, reason, fence);
    loss_log_locked(lock, reason, fence, now_ns);
}

void dl_held_lose_locked(struct dlock_handle *lock, enum dlock_reason reason, int64_t now_ns)
{
    struct dlock_client *client = lock->client;

    hold_over_locked(lock, now_ns);
    dl_lease_lose(&lock->lease);
    doubt_note_locked(lock, false);
    dl_renew_schedule_remove_locked(lock);
    if (lock->phase != DL_PHASE_RELEASING)
        dl_held_uncount_locked(lock);
    if (lock->reported)
        return;
    lock->reported = true;
    lock->reason = (uint8_t)reason;
    dl_held_lost_locked(lock, reason, now_ns);
    if (reason == DLOCK_REASON_EXPIRED || reason == DLOCK_REASON_MAX_HOLD)
        dl_held_run_out_locked(lock);
    dl_events_push(&client->events, &lock->event);
    if (client->on_lost != NULL || lock->must_give_back || dl_client_has(client, DLOCK_CAP_SESSION))
        dl_renew_schedule_wake_locked(client);
}

void dl_held_event_locked(struct dl_event_node *node, struct dlock_notice *notice)
{
    struct dlock_handle *lock =
        (struct dlock_handle *)(void *)((char *)node - offsetof(struct dlock_handle, event));

    notice->kind = DLOCK_NOTICE_LOST;
    notice->lock = lock;
    notice->user = lock->user;
    notice->reason = lock->reason;
    notice->fence = atomic_load(&lock->fence);
}

void dl_held_end_locked(struct dlock_handle *lock, int64_t now_ns)
{
    hold_over_locked(lock, now_ns);
    dl_lease_free(&lock->lease);
    dl_deadman_end_locked(lock);
    doubt_note_locked(lock, false);
    dl_renew_schedule_remove_locked(lock);
}
