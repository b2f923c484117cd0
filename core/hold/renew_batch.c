/* SPDX-License-Identifier: MIT */
#include "hold/renew_batch.h"
#include "hold/held.h"
#include "hold/renew.h"
#include "session/dispatch.h"
#include "sys/error.h"

/* Who wants short exchanges may be gone: it is looked at again after this time, and not sooner than
 * an exchange may last. */
#define BOUND_LIFE_NS DL_NS_PER_S

static struct dlock *due_lock(struct dl_due *due)
{
    return (struct dlock *)(void *)((char *)due - offsetof(struct dlock, due));
}

static struct dlock *end_lock(struct dl_due *end)
{
    return (struct dlock *)(void *)((char *)end - offsetof(struct dlock, end));
}

static int64_t renewal_exchange_ns(const struct dlock *lock)
{
    return dl_renewal_exchange_ns(&lock->renewal, lock->terms->op_timeout_ms * DL_NS_PER_MS);
}

/* A callback may wait for any handle: none is kept busy across it. */
static void batch_drop(struct dlock_client *client, size_t n, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++) {
        client->keeper.batch[i]->keeper_busy = false;
        dl_renewer_set(client, client->keeper.batch[i], now_ns);
    }
}

/* Leases that have run out are lost, whatever else is due. With the mutex held. */
static void ended_lose(struct dlock_client *client, int64_t now_ns)
{
    struct dl_due *end = dl_schedule_first(&client->keeper.ends);

    while (end != NULL && end->at_ns <= now_ns) {
        (void)dl_held_due_locked(end_lock(end), now_ns, 0);
        end = dl_schedule_first(&client->keeper.ends);
    }
}

/* How long before its time this handle may be renewed with the first of a batch: not at all if it
 * would cut the exchange short, or backs off after a failure, nor a second time. */
static int64_t early_of(const struct dlock *lock, const struct dlock *first)
{
    if (lock->keeper_busy || lock->renewal.failures > 0 ||
        renewal_exchange_ns(lock) < renewal_exchange_ns(first))
        return 0;
    return dl_renewal_early_ns(&lock->renewal);
}

size_t dl_renew_batch_collect_locked(struct dlock_client *client, int64_t now_ns)
{
    struct dl_renewer *keeper = &client->keeper;
    /* [SES-1]: a ping each, and whoever is not pinged just now is not kept busy. */
    size_t most = dl_client_has(client, DLOCK_CAP_SESSION) ? 1 : DL_KEEPER_BATCH;
    size_t n = 0;

    ended_lose(client, now_ns);
    while (n < most && !dl_renewer_losses_wait(client)) {
        struct dl_due *due = dl_schedule_first(&keeper->schedule);
        struct dlock *lock;
        int64_t early_ns = 0;
        bool is_early;

        if (due == NULL)
            return n;
        lock = due_lock(due);
        if (n > 0)
            early_ns = early_of(lock, keeper->batch[0]);
        is_early = due->at_ns > now_ns;
        if (due->at_ns - early_ns > now_ns)
            return n;
        if (!dl_held_due_locked(lock, now_ns, early_ns)) {
            if (is_early) /* its time may still be the first */
                return n;
            continue;
        }
        /* The next moment to look at it, should the exchange decide nothing. */
        dl_renewer_set(client, lock, dl_lease_until_ns(&lock->lease));
        lock->keeper_busy = true;
        dl_renew_prepare_locked(lock);
        keeper->batch[n] = lock;
        keeper->ops[n].req = &lock->claim->req;
        n++;
    }
    if (!dl_renewer_losses_wait(client))
        return n;
    batch_drop(client, n, now_ns);
    return 0;
}

/* With the mutex held. */
static void bound_look(struct dlock_client *client, int64_t now_ns)
{
    struct dl_renewer *keeper = &client->keeper;

    if (now_ns - keeper->bound_seen_ns < dl_later(keeper->bound_ns, BOUND_LIFE_NS))
        return;
    keeper->bound_seen_ns = now_ns;
    keeper->bound_ns = DL_NEVER;
    for (struct dlock *lock = client->locks; lock != NULL; lock = lock->next)
        dl_renewer_heed(client, lock);
}

int64_t dl_renew_batch_until_locked(struct dlock_client *client, struct dlock *const *locks,
                                    size_t n, int64_t now_ns)
{
    const struct dl_due *end;
    int64_t most_ns;
    int64_t last_ns = 0; /* when the last of these leases ends, and nothing is to be gained */

    ended_lose(client, now_ns);
    bound_look(client, now_ns);
    end = dl_schedule_first(&client->keeper.ends);
    most_ns = client->keeper.bound_ns;
    if (end != NULL)
        most_ns = dl_earlier(most_ns, dl_later(end->at_ns - now_ns, DL_EXCHANGE_LEAST_NS));
    for (size_t i = 0; i < n; i++) {
        most_ns = dl_earlier(most_ns, renewal_exchange_ns(locks[i]));
        last_ns = dl_later(last_ns, dl_lease_until_ns(&locks[i]->lease));
    }
    if (last_ns > now_ns)
        most_ns = dl_earlier(most_ns, last_ns - now_ns);
    return now_ns + most_ns;
}

/* One exchange for the n handles of the batch, without the mutex. */
static void batch_exchange(struct dlock_client *client, size_t n, int64_t deadline_ns)
{
    struct dlock *first = client->keeper.batch[0];
    struct dlock_lease_op *ops = client->keeper.ops;
    struct dl_session *session;
    struct dlock_error err;
    enum dlock_status status;
    int64_t sent_ns;

    dl_error_reset(&err);
    status = dl_claim_session(client, first->claim, DL_USE_KEEPER, deadline_ns, &session, &err);
    sent_ns = dl_client_now(client);
    for (size_t i = 0; i < n; i++) {
        client->keeper.sent_ns[i] = sent_ns;
        ops[i].status = status;
    }
    if (status == DLOCK_OK) {
        enum dlock_status worst = DLOCK_OK;

        dl_dispatch_renew(client->plugin, session->self, ops, n, deadline_ns, &err);
        for (size_t i = 0; i < n; i++)
            if (ops[i].status != DLOCK_OK && ops[i].status != DLOCK_LOST)
                worst = DLOCK_UNKNOWN; /* one bad answer is enough to drop the session */
        dl_claim_session_put(client, first->claim, DL_USE_KEEPER, session, worst);
    }
    if (err.message[0] != '\0')
        dl_log(&client->host.log, DLOCK_LOG_WARNING, "renewal: %s", err.message);
}

void dl_renew_batch_busy_end_locked(struct dlock *lock)
{
    lock->keeper_busy = false;
    dl_handle_changed_locked(lock);
}

/* Whether the i-th has a lease in the store that came too late for its claim. With the mutex held.
 */
static bool came_late(struct dlock_client *client, size_t i)
{
    struct dlock *lock = client->keeper.batch[i];
    const struct dlock_lease_op *op = &client->keeper.ops[i];
    int64_t now_ns = dl_client_now(client);
    bool late;

    if (dl_lease_state(&lock->lease, now_ns) == DLOCK_STATE_FREE)
        /* An unlock waits: of a held lock it will send a release, of a lost one nothing. */
        return op->status == DLOCK_OK && lock->told;
    (void)dl_held_renewed_locked(lock, client->keeper.sent_ns[i], now_ns, op->status, &op->grant,
                                 &late);
    return late;
}

/* With the mutex held. */
static void batch_apply(struct dlock_client *client, size_t n)
{
    struct dl_renewer *keeper = &client->keeper;

    for (size_t i = 0; i < n; i++) {
        struct dlock *lock = keeper->batch[i];

        if (came_late(client, i)) {
            lock->late = true;
            keeper->late++;
        }
        dl_renew_batch_busy_end_locked(lock);
    }
}

void dl_renew_batch_renew_locked(struct dlock_client *client, size_t n)
{
    struct dl_renewer *keeper = &client->keeper;
    int64_t now_ns = dl_client_now(client);
    int64_t deadline_ns = dl_renew_batch_until_locked(client, keeper->batch, n, now_ns);

    if (dl_renewer_losses_wait(client)) {
        batch_drop(client, n, now_ns);
        return;
    }
    keeper->busy_until_ns = deadline_ns;
    (void)pthread_mutex_unlock(&client->mutex);
    batch_exchange(client, n, deadline_ns);
    (void)pthread_mutex_lock(&client->mutex);
    keeper->busy_until_ns = 0;
    batch_apply(client, n);
}
