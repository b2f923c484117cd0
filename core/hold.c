/* SPDX-License-Identifier: MIT */
#include "hold.h"
#include "backoff.h"
#include "validity.h"

#define RETRY_FIRST_NS (5 * DL_NS_PER_MS)

/* A lease shorter than the ttl, as queues grant it, is extended after this time: soon, because it
 * may not outlast a pause of this process; not at once, because many locks are given back before.
 */
#define SHORT_LEASE_NS (50 * DL_NS_PER_MS)

static struct dlock *turn_lock(struct dl_turn *turn)
{
    return (struct dlock *)(void *)((char *)turn - offsetof(struct dlock, turn));
}

void dl_hold_admit_locked(struct dlock *lock)
{
    struct dl_queue *queue = &lock->name->queue;

    while (dl_queue_admit(queue) != NULL)
        continue;
    for (struct dl_turn *turn = queue->first; turn != NULL && turn->admitted; turn = turn->next)
        (void)pthread_cond_broadcast(&turn_lock(turn)->changed);
}

void dl_hold_count_locked(struct dlock *lock)
{
    if (lock->counted != NULL)
        return;
    lock->counted =
        lock->claim->req.mode == DLOCK_SHARED ? &lock->name->readers : &lock->name->writers;
    ++*lock->counted;
}

void dl_hold_uncount_locked(struct dlock *lock)
{
    if (lock->counted == NULL)
        return;
    --*lock->counted;
    lock->counted = NULL;
    dl_hold_admit_locked(lock);
}

void dl_hold_count_moved_locked(struct dlock *from, struct dlock *to)
{
    to->counted = from->counted;
    from->counted = NULL;
}

void dl_hold_downgrade_locked(struct dlock *lock)
{
    lock->claim->req.mode = DLOCK_SHARED;
    lock->downgrading = true;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool reads_held(enum dlock_state state)
{
    return state == DLOCK_STATE_HELD || state == DLOCK_STATE_DOUBTFUL;
}

static void look_again_locked(struct dlock *lock)
{
    dl_keeper_set(lock->client, lock, earlier(lock->renew_at_ns, dl_lease_until_ns(&lock->lease)));
}

/* A third of the lease after base_ns; never, once the store keeps the lease to the end of max_hold.
 */
static int64_t next_renewal(const struct dlock *lock, int64_t base_ns, int64_t lease_ms)
{
    int64_t kept_until_ns = dl_validity_until_ns(base_ns, lease_ms);

    if (!lock->auto_renew || kept_until_ns >= lock->hold_until_ns)
        return DL_NEVER;
    return base_ns + lease_ms * (DL_NS_PER_MS / 3);
}

void dl_hold_granted_locked(struct dlock *lock, int64_t now_ns, int64_t until_ns,
                            const struct dlock_grant *grant)
{
    int64_t base_ns = until_ns - dl_validity_until_ns(0, grant->lease_ms);

    lock->hold_until_ns =
        lock->max_hold_ms == 0 ? DL_NEVER : dl_clock_after_ms(now_ns, lock->max_hold_ms);
    lock->renew_at_ns = next_renewal(lock, base_ns, grant->lease_ms);
    if (grant->lease_ms < lock->claim->req.ttl_ms && lock->renew_at_ns != DL_NEVER &&
        !dl_client_has(lock->client, DLOCK_CAP_SESSION))
        lock->renew_at_ns = earlier(lock->renew_at_ns, now_ns + SHORT_LEASE_NS);
    lock->lease_ms = grant->lease_ms;
    lock->renew_failures = 0;
    lock->repeatable = false;
    lock->downgrading = false;
    lock->depth = 0;
    lock->told = false;
    atomic_store(&lock->fence, grant->fence);
    dl_lease_grant(&lock->lease, earlier(until_ns, lock->hold_until_ns));
    look_again_locked(lock);
}

static void downgraded_locked(struct dlock *lock)
{
    lock->downgrading = false;
    dl_hold_uncount_locked(lock);
    dl_hold_count_locked(lock);
}

static void renewal_failed_locked(struct dlock *lock, int64_t now_ns)
{
    int64_t most_ns = lock->lease_ms * (DL_NS_PER_MS / 10);

    if (most_ns > DL_NS_PER_S)
        most_ns = DL_NS_PER_S;
    if (lock->auto_renew)
        lock->renew_at_ns = now_ns + dl_backoff_delay(lock->renew_failures++, RETRY_FIRST_NS,
                                                      most_ns, dl_client_random(lock->client));
    look_again_locked(lock);
}

enum dlock_status dl_hold_renewed_locked(struct dlock *lock, int64_t sent_ns, int64_t now_ns,
                                         enum dlock_status status, const struct dlock_grant *grant,
                                         bool *stale)
{
    bool extended = status == DLOCK_OK;
    bool session = dl_client_has(lock->client, DLOCK_CAP_SESSION);
    int64_t until_ns = extended ? dl_validity_until_ns(sent_ns, grant->lease_ms) : 0;

    *stale = false;
    if (status == DLOCK_LOST) {
        dl_hold_lose_locked(lock, session ? DLOCK_REASON_SESSION : DLOCK_REASON_TAKEN);
        return DLOCK_LOST;
    }
    if (extended && !dl_validity_enough(now_ns, until_ns, grant->lease_ms))
        status = DLOCK_UNAVAILABLE; /* C3: an answer that came too late to be of use */
    if (status == DLOCK_OK
            ? dl_lease_extend(&lock->lease, now_ns, earlier(until_ns, lock->hold_until_ns))
            : dl_lease_doubt(&lock->lease, now_ns)) {
        if (status == DLOCK_OK) {
            if (lock->downgrading)
                downgraded_locked(lock);
            dl_name_note_waiters(lock->name, grant->waiters, lock->name->places, now_ns);
            lock->lease_ms = grant->lease_ms;
            lock->renew_failures = 0;
            lock->renew_at_ns = next_renewal(lock, sent_ns, grant->lease_ms);
            look_again_locked(lock);
        } else {
            renewal_failed_locked(lock, now_ns);
        }
        return status;
    }
    *stale = extended;
    (void)dl_hold_due_locked(lock, now_ns);
    return DLOCK_LOST;
}

bool dl_hold_due_locked(struct dlock *lock, int64_t now_ns)
{
    enum dlock_state state = dl_lease_state(&lock->lease, now_ns);

    if (state == DLOCK_STATE_LOST)
        dl_hold_lose_locked(lock, dl_lease_until_ns(&lock->lease) == lock->hold_until_ns
                                      ? DLOCK_REASON_MAX_HOLD
                                      : DLOCK_REASON_EXPIRED);
    if (!reads_held(state)) {
        dl_keeper_remove(lock->client, lock);
        return false;
    }
    if (lock->renew_at_ns <= now_ns && lock->phase == DL_PHASE_IDLE)
        return true;
    if (lock->renew_at_ns <= now_ns) /* the application renews it just now */
        lock->renew_at_ns = dl_lease_until_ns(&lock->lease);
    look_again_locked(lock);
    return false;
}

void dl_hold_lose_locked(struct dlock *lock, enum dlock_reason reason)
{
    struct dlock_client *client = lock->client;

    dl_lease_lose(&lock->lease);
    dl_keeper_remove(client, lock);
    if (lock->phase != DL_PHASE_RELEASING)
        dl_hold_uncount_locked(lock);
    if (lock->told)
        return;
    lock->told = true;
    lock->reason = reason;
    lock->event.event = (struct dlock_event){
        .lock = lock, .user = lock->user, .reason = reason, .fence = atomic_load(&lock->fence)};
    dl_events_push(&client->events, &lock->event);
    if (client->on_lost != NULL || dl_client_has(client, DLOCK_CAP_SESSION))
        dl_keeper_wake(client);
}

void dl_hold_end_locked(struct dlock *lock)
{
    dl_lease_free(&lock->lease);
    dl_keeper_remove(lock->client, lock);
}
