/* SPDX-License-Identifier: MIT */
#include "hold/renew_batch.h"
#include "hold/held.h"
#include "hold/renew.h"
#include "hold/renew_schedule.h"
#include "session/dispatch.h"
#include "sys/error.h"

#include <stdio.h>

/* The handle that needs short exchanges may be gone: the limit is computed again after this time,
 * and not sooner than an exchange may last. */
#define IO_LIMIT_LIFE_NS DL_NS_PER_S

bool dl_renew_batch_losses_pending_locked(const struct dlock_client *client)
{
    return client->on_lost != NULL && client->events.first != NULL;
}

static struct dlock_handle *due_lock(struct dl_due *due)
{
    return (struct dlock_handle *)(void *)((char *)due - offsetof(struct dlock_handle, due));
}

static struct dlock_handle *end_lock(struct dl_due *end)
{
    return (struct dlock_handle *)(void *)((char *)end - offsetof(struct dlock_handle, end));
}

/* Ends renewer_busy of the batch: a callback may wait for any handle. */
static void batch_drop_locked(struct dlock_client *client, size_t n, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++) {
        client->renewer->batch[i]->renewer_busy = false;
        dl_renew_schedule_set_locked(client->renewer->batch[i], now_ns);
    }
}

/* Reports leases that have ended, before anything else that is due. */
static void ended_lose_locked(struct dlock_client *client, int64_t now_ns)
{
    struct dl_due *end = dl_schedule_first(&client->renewer->ends);

    while (end != NULL && end->at_ns <= now_ns) {
        (void)dl_held_due_locked(end_lock(end), now_ns, 0);
        end = dl_schedule_first(&client->renewer->ends);
    }
}

/* How early this handle may be renewed together with the first of a batch. 0 if it would shorten
 * the exchange, if it waits after a failure, or if it is in the batch already. */
static int64_t early_of_locked(const struct dlock_handle *lock, const struct dlock_handle *first)
{
    if (lock->renewer_busy || lock->renewal.failures > 0 ||
        dl_renew_schedule_exchange_ns_locked(lock) < dl_renew_schedule_exchange_ns_locked(first))
        return 0;
    return dl_renewal_early_ns(&lock->renewal);
}

size_t dl_renew_batch_collect_locked(struct dlock_client *client, int64_t now_ns)
{
    struct dl_renewer *renewer = client->renewer;
    /* [SES-1]: each session is pinged alone, so that the other handles are not busy meanwhile. */
    size_t most = dl_client_has(client, DLOCK_CAP_SESSION) ? 1 : DL_RENEW_BATCH;
    size_t n = 0;

    ended_lose_locked(client, now_ns);
    while (n < most && !dl_renew_batch_losses_pending_locked(client)) {
        struct dl_due *due = dl_schedule_first(&renewer->schedule);
        struct dlock_handle *lock;
        int64_t early_ns = 0;
        bool is_early;

        if (due == NULL)
            return n;
        lock = due_lock(due);
        if (n > 0)
            early_ns = early_of_locked(lock, renewer->batch[0]);
        is_early = due->at_ns > now_ns;
        if (due->at_ns - early_ns > now_ns)
            return n;
        if (!dl_held_due_locked(lock, now_ns, early_ns)) {
            if (is_early) /* it may still be the first of the heap */
                return n;
            continue;
        }
        /* The next check, if the exchange decides nothing. */
        dl_renew_schedule_set_locked(lock, dl_lease_until_ns(&lock->lease));
        lock->renewer_busy = true;
        dl_renew_prepare_locked(lock);
        renewer->batch[n] = lock;
        renewer->ops[n].req = &lock->claim->req;
        n++;
    }
    if (!dl_renew_batch_losses_pending_locked(client))
        return n;
    batch_drop_locked(client, n, now_ns);
    return 0;
}

static void io_limit_update_locked(struct dlock_client *client, int64_t now_ns)
{
    struct dl_renewer *renewer = client->renewer;

    if (now_ns - renewer->io_limit_set_ns < dl_later(renewer->io_limit_ns, IO_LIMIT_LIFE_NS))
        return;
    renewer->io_limit_set_ns = now_ns;
    renewer->io_limit_ns = DL_NEVER;
    for (struct dlock_handle *lock = client->locks; lock != NULL; lock = lock->next)
        dl_renew_schedule_limit_locked(lock);
}

int64_t dl_renew_batch_until_locked(struct dlock_client *client, struct dlock_handle *const *locks,
                                    size_t n, int64_t now_ns)
{
    const struct dl_due *end;
    int64_t most_ns;
    int64_t last_ns = 0; /* end of the last of these leases; after it an answer is of no use */

    ended_lose_locked(client, now_ns);
    io_limit_update_locked(client, now_ns);
    end = dl_schedule_first(&client->renewer->ends);
    most_ns = client->renewer->io_limit_ns;
    if (end != NULL)
        most_ns = dl_earlier(most_ns, dl_later(end->at_ns - now_ns, DL_IO_LIMIT_LEAST_NS));
    for (size_t i = 0; i < n; i++) {
        most_ns = dl_earlier(most_ns, dl_renew_schedule_exchange_ns_locked(locks[i]));
        last_ns = dl_later(last_ns, dl_lease_until_ns(&locks[i]->lease));
    }
    if (last_ns > now_ns)
        most_ns = dl_earlier(most_ns, last_ns - now_ns);
    return now_ns + most_ns;
}

static void failure_log(const struct dlock_client *client, size_t n, const char *message)
{
    char name[DL_NAME_TEXT], others[40] = "";

    if (n > 1)
        (void)snprintf(others, sizeof others, " and %zu more", n - 1);
    dl_log(&client->host.log, DLOCK_LOG_WARNING, "%s%s: renewal: %s",
           dl_name_state_text(client->renewer->batch[0]->name, name), others, message);
}

/* Makes one exchange for the n handles of the batch. Without the mutex. */
static void batch_exchange(struct dlock_client *client, size_t n, int64_t deadline_ns)
{
    struct dlock_handle *first = client->renewer->batch[0];
    struct dlock_lease_op *ops[DL_RENEW_BATCH];
    struct dl_session *session;
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status;
    int64_t sent_ns;

    status = dl_claim_session(client, first->claim, DL_USE_RENEWER, deadline_ns, &session, &err);
    sent_ns = dl_client_now(client);
    for (size_t i = 0; i < n; i++) {
        client->renewer->sent_ns[i] = sent_ns;
        ops[i] = &client->renewer->ops[i];
        ops[i]->status = status;
    }
    if (status == DLOCK_OK) {
        enum dlock_status worst = DLOCK_OK;

        dl_dispatch_renew(client->plugin, session->self, ops, n, deadline_ns, &err);
        for (size_t i = 0; i < n; i++)
            if (ops[i]->status != DLOCK_OK && ops[i]->status != DLOCK_LOST)
                worst = DLOCK_UNKNOWN; /* one bad answer is enough to close the session */
        dl_claim_session_put(client, first->claim, DL_USE_RENEWER, session, worst);
    }
    if (err.message[0] != '\0')
        failure_log(client, n, err.message);
}

void dl_renew_batch_busy_end_locked(struct dlock_handle *lock)
{
    lock->renewer_busy = false;
    dl_handle_changed_locked(lock);
}

/* Whether the store renewed the lease of the i-th handle too late, so that it has to be given back.
 */
static bool must_give_back_locked(struct dlock_client *client, size_t i)
{
    struct dlock_handle *lock = client->renewer->batch[i];
    const struct dlock_lease_op *op = &client->renewer->ops[i];
    int64_t now_ns = dl_client_now(client);
    bool stale;

    if (dl_lease_state(&lock->lease, now_ns) == DLOCK_STATE_FREE)
        /* An unlock waits. For a held lock it will send the release, for a lost one it will not. */
        return op->status == DLOCK_OK && lock->reported;
    (void)dl_held_renewed_locked(lock, client->renewer->sent_ns[i], now_ns, op->status, &op->grant,
                                 &stale);
    return stale;
}

static void batch_apply_locked(struct dlock_client *client, size_t n)
{
    struct dl_renewer *renewer = client->renewer;

    for (size_t i = 0; i < n; i++) {
        struct dlock_handle *lock = renewer->batch[i];

        if (must_give_back_locked(client, i))
            dl_renew_schedule_must_give_back_locked(lock);
        dl_renew_batch_busy_end_locked(lock);
    }
}

void dl_renew_batch_renew_locked(struct dlock_client *client, size_t n)
{
    struct dl_renewer *renewer = client->renewer;
    int64_t now_ns = dl_client_now(client);
    int64_t deadline_ns = dl_renew_batch_until_locked(client, renewer->batch, n, now_ns);

    if (dl_renew_batch_losses_pending_locked(client)) {
        batch_drop_locked(client, n, now_ns);
        return;
    }
    renewer->busy_until_ns = deadline_ns;
    (void)pthread_mutex_unlock(&client->mutex);
    batch_exchange(client, n, deadline_ns);
    (void)pthread_mutex_lock(&client->mutex);
    renewer->busy_until_ns = 0;
    batch_apply_locked(client, n);
}
