/* SPDX-License-Identifier: MIT */
#include "hold/renewer.h"
#include "hold/held.h"
#include "hold/lease.h"
#include "hold/operation.h"
#include "hold/release_fsm.h"
#include "hold/renew_schedule.h"
#include "session/dispatch.h"
#include "sys/error.h"
#include "sys/own_thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Sets the request of a handle that is held to a renewal. */
static void renew_prepare_locked(struct dlock_handle *lock)
{
    struct dlock_request *req = &lock->claim->req;

    req->flags = lock->downgrading ? DLOCK_REQ_DOWNGRADE : 0;
    req->deadline_ns = dl_lease_until_ns(&lock->lease); /* [REN-5] */
    req->ttl_ms = dl_client_ttl_ms(lock->client, req->ttl_ms);
}

/* Returns the time of sending; the answer is in *op. */
static int64_t renew_send(struct dlock_handle *lock, int64_t deadline_ns, struct dlock_lease_op *op,
                          struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct dl_claim *claim = lock->claim;
    struct dl_session *session;
    int64_t sent_ns;

    *op = (struct dlock_lease_op){.req = &claim->req};
    op->status = dl_claim_session(client, claim, DL_USE_HOLDER, deadline_ns, &session, err);
    sent_ns = dl_client_now(client);
    if (op->status == DLOCK_OK) {
        dl_dispatch_renew(client->plugin, session->self, &op, 1, deadline_ns, err);
        dl_claim_session_put(client, claim, DL_USE_HOLDER, session, op->status);
    }
    return sent_ns;
}

enum dlock_status dl_renew_first(struct dlock_handle *lock, int64_t deadline_ns, int64_t *lease_ms,
                                 int64_t *valid_until_ns, struct dlock_error *err)
{
    struct dlock_lease_op op;
    int64_t sent_ns;

    lock->claim->req.flags &= DLOCK_REQ_ADOPT;      /* [REN-6] */
    lock->claim->req.deadline_ns = *valid_until_ns; /* [REN-5] */
    sent_ns = renew_send(lock, deadline_ns, &op, err);
    if (op.status == DLOCK_OK) {
        *lease_ms = op.grant.lease_ms;
        *valid_until_ns = dl_lease_valid_until_ns(sent_ns, op.grant.lease_ms, lock->renewal.margin);
    }
    return op.status;
}

/* The renewer cannot renew the lock meanwhile, and has to have the time for it afterwards. */
static int64_t asked_exchange_ns_locked(const struct dlock_handle *lock)
{
    return lock->renewal.automatic ? dl_renew_schedule_exchange_ns_locked(lock)
                                   : dl_handle_op_timeout_ms(lock) * DL_NS_PER_MS;
}

/* Returns OK, LOST, or another status with which the old validity stays. */
static enum dlock_status renew_exchange(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct dlock_lease_op op;
    enum dlock_status status;
    int64_t deadline_ns, sent_ns, now_ns;
    bool stale;

    (void)pthread_mutex_lock(&client->mutex);
    renew_prepare_locked(lock);
    deadline_ns = dl_client_now(client) + asked_exchange_ns_locked(lock);
    (void)pthread_mutex_unlock(&client->mutex);
    sent_ns = renew_send(lock, deadline_ns, &op, err);
    now_ns = dl_client_now(client);
    (void)pthread_mutex_lock(&client->mutex);
    status = dl_held_renewed_locked(lock, sent_ns, now_ns, op.status, &op.grant, &stale);
    if (stale) /* it is given back here, and once */
        (void)dl_renew_schedule_take_give_back_locked(lock);
    (void)pthread_mutex_unlock(&client->mutex);
    if (stale) /* an unlock may wait for this call */
        dl_claim_give_back(client, lock->claim, DL_USE_HOLDER,
                           deadline_ns > now_ns + DL_GRACE_NS ? deadline_ns : now_ns + DL_GRACE_NS);
    if (status == DLOCK_LOST)
        (void)dl_error(err, status, "the lock was lost");
    return status;
}

/* OK: the handle is held and in the phase RENEWING. */
static enum dlock_status renew_begin_locked(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;

    if (client->closed)
        return dl_error(err, DLOCK_CLOSED, "the client is closed");
    if (dl_operation_bars_locked(lock->operation, err) != DLOCK_OK)
        return DLOCK_ALREADY;
    dl_handle_wait_for_renewal_locked(lock);
    if (lock->phase == DL_PHASE_ACQUIRING)
        return dl_error(err, DLOCK_NOT_HELD, "the handle is being acquired");
    if (lock->ending >
        0) /* its unlock waits for an earlier renewal, and must not wait for another one */
        return dl_error(err, DLOCK_NOT_HELD, "the handle is being released");
    switch (dl_lease_state(&lock->lease, dl_client_now(client))) {
    case DLOCK_STATE_FREE:
        return dl_error(err, DLOCK_NOT_HELD, "the handle does not hold the lock");
    case DLOCK_STATE_LOST:
        return dl_error(err, DLOCK_LOST, "the lock was lost");
    default:
        lock->phase = DL_PHASE_RENEWING;
        return DLOCK_OK;
    }
}

static enum dlock_status renew_run(struct dlock_handle *lock, struct dlock_error *err)
{
    enum dlock_status status = renew_exchange(lock, err);

    (void)pthread_mutex_lock(&lock->client->mutex);
    dl_held_idle_locked(lock);
    if (status == DLOCK_LOST && lock->claim->lease_session != NULL)
        dl_renew_schedule_wake_locked(lock->client); /* the renewer ends the session */
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return status;
}

enum dlock_status dl_renew(struct dlock_handle *lock, int64_t ttl_ms, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status;

    if (ttl_ms != 0 && dl_ttl_grid_judge(&client->pool.ttls, ttl_ms, err) != DLOCK_OK)
        return DLOCK_CONFIG;
    (void)pthread_mutex_lock(&client->mutex);
    status = renew_begin_locked(lock, err);
    if (status == DLOCK_OK && ttl_ms != 0 && lock->claim->req.ttl_ms == DLOCK_TTL_NONE) {
        status = dl_error(err, DLOCK_INVALID, "the lease has no ttl, and gets none");
        dl_held_idle_locked(lock);
    }
    if (status == DLOCK_OK && ttl_ms != 0)
        lock->claim->req.ttl_ms = ttl_ms; /* rounded when it is sent */
    (void)pthread_mutex_unlock(&client->mutex);
    return status == DLOCK_OK ? renew_run(lock, err) : status;
}

/* *tell: the store has to be told; the handle is then in the phase RENEWING. */
static enum dlock_status downgrade_begin_locked(struct dlock_handle *lock, bool *tell,
                                                struct dlock_error *err)
{
    enum dlock_status status = renew_begin_locked(lock, err);

    *tell = false;
    if (status != DLOCK_OK)
        return status;
    if (lock->claim->req.mode == DLOCK_EXCLUSIVE) {
        if (lock->claim->req.limit > 1 || lock->keep_ms > 0)
            status = dl_error(err, DLOCK_INVALID, "limit and keep_ms are for the exclusive mode");
        else if (lock->depth > 0)
            status = dl_error(err, DLOCK_INVALID, "acquired %u times, by callers that rely on it",
                              lock->depth + 1);
        else
            dl_held_downgrade_locked(lock);
    }
    *tell = lock->downgrading;
    if (!*tell)
        dl_held_idle_locked(lock);
    return status;
}

enum dlock_status dl_renew_downgrade(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status;
    bool tell;

    if ((dl_session_pool_caps(&client->pool) & DLOCK_CAP_DOWNGRADE) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "this store cannot downgrade a lock");
    (void)pthread_mutex_lock(&client->mutex);
    status = downgrade_begin_locked(lock, &tell, err);
    (void)pthread_mutex_unlock(&client->mutex);
    return tell ? renew_run(lock, err) : status;
}

/*
 * The exchanges of the renewer: which handles are due and which join them, how long the exchange
 * may last, and what the answers mean.
 *
 * A handle is renewer_busy from collecting to applying, and no callback runs meanwhile: a callback
 * may wait for any handle.
 */

/* The handle that needs short exchanges may be gone: the limit is computed again after this time,
 * and not sooner than an exchange may last. */
#define IO_LIMIT_LIFE_NS DL_NS_PER_S

/* Whether a loss waits for the callback. */
static bool renew_batch_losses_pending_locked(const struct dlock_client *client)
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

/* Collects the handles for the next exchange in renewer->batch, marks them renewer_busy, and
 * returns their number. Reports losses first: returns 0 while one waits for a callback. */
static size_t renew_batch_collect_locked(struct dlock_client *client, int64_t now_ns)
{
    struct dl_renewer *renewer = client->renewer;
    /* [SES-1]: each session is pinged alone, so that the other handles are not busy meanwhile. */
    size_t most = dl_client_has(client, DLOCK_CAP_SESSION) ? 1 : DL_RENEW_BATCH;
    size_t n = 0;

    ended_lose_locked(client, now_ns);
    while (n < most && !renew_batch_losses_pending_locked(client)) {
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
        renew_prepare_locked(lock);
        renewer->batch[n] = lock;
        renewer->ops[n].req = &lock->claim->req;
        n++;
    }
    if (!renew_batch_losses_pending_locked(client))
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

/* The deadline of an exchange for these n handles that begins now. It respects every lease of the
 * client, and the leases that handles may get meanwhile. See DL_IO_LIMIT_LEAST_NS. */
static int64_t renew_batch_until_locked(struct dlock_client *client,
                                        struct dlock_handle *const *locks, size_t n, int64_t now_ns)
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

/* The renewer no longer uses the handle. */
static void renew_batch_busy_end_locked(struct dlock_handle *lock)
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
        renew_batch_busy_end_locked(lock);
    }
}

/* Renews the n handles of the batch in one exchange. Releases the mutex meanwhile. */
static void renew_batch_renew_locked(struct dlock_client *client, size_t n)
{
    struct dl_renewer *renewer = client->renewer;
    int64_t now_ns = dl_client_now(client);
    int64_t deadline_ns = renew_batch_until_locked(client, renewer->batch, n, now_ns);

    if (renew_batch_losses_pending_locked(client)) {
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

#define AWAKE_NS INT64_MIN

/* The renewer may wake up this much too late because it stood still while it armed its timer. */
#define ARMED_WITHIN_NS DL_NS_PER_MS

bool dl_renewer_is_self_locked(const struct dlock_client *client)
{
    return client->renewer->running && pthread_equal(client->renewer->thread, pthread_self()) != 0;
}

/* Calls on_lost for each loss. Releases the mutex during the callbacks. */
static void losses_report_locked(struct dlock_client *client)
{
    while (renew_batch_losses_pending_locked(client)) {
        struct dlock_notice event = DLOCK_NOTICE_INIT;

        dl_held_event_locked(dl_events_pop(&client->events), &event);
        event.lock->in_callback = true;
        (void)pthread_mutex_unlock(&client->mutex);
        client->on_lost(client->on_lost_arg, &event);
        (void)pthread_mutex_lock(&client->mutex);
        event.lock->in_callback = false;
        dl_handle_changed_locked(event.lock);
    }
}

/* Releases the mutex meanwhile. */
static void log_lines_write_locked(struct dlock_client *client)
{
    struct dl_log_lines lines = dl_log_lines_take_locked(&client->log_lines);

    (void)pthread_mutex_unlock(&client->mutex);
    dl_log_lines_write(lines, &client->host.log);
    (void)pthread_mutex_lock(&client->mutex);
}

static bool is_left(struct dlock_handle *lock, int64_t now_ns)
{
    return lock->phase == DL_PHASE_IDLE && !lock->renewer_busy &&
           lock->claim->lease_session != NULL &&
           dl_lease_state(&lock->lease, now_ns) == DLOCK_STATE_LOST;
}

/* If leases live in sessions, the store cannot know that a claim has ended (renew=off, max_hold),
 * and others would wait until the application acknowledges the loss. Ends one such session.
 * Releases the mutex meanwhile. false: there was none. */
static bool lost_session_end_locked(struct dlock_client *client)
{
    struct dlock_handle *lock = dl_client_has(client, DLOCK_CAP_SESSION) ? client->locks : NULL;
    int64_t now_ns = dl_client_now(client);

    while (lock != NULL && !is_left(lock, now_ns))
        lock = lock->next;
    if (lock == NULL)
        return false;
    lock->renewer_busy = true;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_claim_forget(client, lock->claim);
    dl_claim_lease_session_put(client, lock->claim, DLOCK_LOST);
    (void)pthread_mutex_lock(&client->mutex);
    renew_batch_busy_end_locked(lock);
    return true;
}

/* A handle whose lease has to be given back now; NULL: none. Other handles are moved to the tail,
 * so that each is passed once although many leases end together. */
static struct dlock_handle *give_back_find_locked(struct dlock_client *client)
{
    const struct dlock_handle *passed = NULL;

    if (client->renewer->give_backs == 0)
        return NULL;
    for (struct dlock_handle *lock = client->locks; lock != passed; lock = client->locks) {
        if (lock->must_give_back && lock->phase == DL_PHASE_IDLE)
            return lock;
        if (passed == NULL)
            passed = lock;
        dl_handle_move_to_tail_locked(lock);
    }
    return NULL;
}

/* Gives one lease back that its handle has lost and the store may keep, unless an unlock of the
 * handle does so. Releases the mutex meanwhile. false: there was none. */
static bool one_give_back_locked(struct dlock_client *client)
{
    struct dl_renewer *renewer = client->renewer;
    struct dlock_handle *lock = give_back_find_locked(client);
    int64_t deadline_ns;

    if (lock == NULL)
        return false;
    deadline_ns = renew_batch_until_locked(client, &lock, 1, dl_client_now(client));
    if (renew_batch_losses_pending_locked(client))
        return true;
    (void)dl_renew_schedule_take_give_back_locked(lock);
    lock->renewer_busy = true;
    renewer->busy_until_ns = deadline_ns;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_claim_give_back(client, lock->claim, DL_USE_RENEWER, deadline_ns);
    (void)pthread_mutex_lock(&client->mutex);
    renewer->busy_until_ns = 0;
    renew_batch_busy_end_locked(lock);
    return true;
}

/* Releases the mutex meanwhile. */
static void sessions_trim_locked(struct dlock_client *client)
{
    (void)pthread_mutex_unlock(&client->mutex);
    dl_session_pool_trim(&client->pool);
    (void)pthread_mutex_lock(&client->mutex);
}

/* DL_NEVER disarms the timer. The client's clock need not be the timer's, which counts from now on:
 * if this thread stood still before, the timer is armed again. */
static void timer_arm(const struct dlock_client *client, int64_t at_ns)
{
    int64_t now_ns;

    do {
        struct itimerspec timer = {{0, 0}, {0, 0}};

        now_ns = dl_client_now(client);
        if (at_ns != DL_NEVER) {
            int64_t left_ns = dl_later(at_ns - now_ns, 1); /* 0 would disarm the timer */

            timer.it_value.tv_sec = (time_t)(left_ns / DL_NS_PER_S);
            timer.it_value.tv_nsec = (long)(left_ns % DL_NS_PER_S);
        }
        (void)timerfd_settime(client->renewer->timer_fd, 0, &timer, NULL);
    } while (dl_client_now(client) - now_ns > ARMED_WITHIN_NS);
}

/* Sleeps until at_ns or a wake-up. Releases the mutex meanwhile. */
static void renewer_sleep_locked(struct dlock_client *client, int64_t at_ns)
{
    struct dl_renewer *renewer = client->renewer;
    struct pollfd fds[2] = {{.fd = renewer->wake_fd, .events = POLLIN},
                            {.fd = renewer->timer_fd, .events = POLLIN}};
    eventfd_t count;

    renewer->armed_ns = at_ns;
    (void)pthread_mutex_unlock(&client->mutex);
    timer_arm(client, at_ns);
    (void)poll(fds, 2, -1);
    if ((fds[0].revents & POLLIN) != 0)
        (void)eventfd_read(renewer->wake_fd, &count);
    (void)pthread_mutex_lock(&client->mutex);
    renewer->armed_ns = AWAKE_NS;
}

static void *renewer_main(void *arg)
{
    struct dlock_client *client = arg;
    struct dl_renewer *renewer = client->renewer;

    dl_own_thread_nice();
    (void)pthread_mutex_lock(&client->mutex);
    while (!renewer->stop) {
        int64_t now_ns = dl_client_now(client);
        size_t n = renew_batch_collect_locked(client, now_ns);
        struct dl_due *next = dl_schedule_first(&renewer->schedule);
        int64_t trim_ns = dl_session_pool_trim_ns(&client->pool, now_ns);

        if (n > 0)
            renew_batch_renew_locked(client, n);
        else if (renew_batch_losses_pending_locked(client))
            losses_report_locked(client);
        else if (client->log_lines.first != NULL)
            log_lines_write_locked(client);
        else if (trim_ns <= now_ns)
            sessions_trim_locked(client);
        else if (!one_give_back_locked(client) && !lost_session_end_locked(client))
            renewer_sleep_locked(client, next == NULL ? trim_ns : dl_earlier(next->at_ns, trim_ns));
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return NULL;
}

enum dlock_status dl_renewer_start_locked(struct dlock_client *client, struct dlock_error *err)
{
    struct dl_renewer *renewer = client->renewer;
    int rc;

    if (renewer->running)
        return DLOCK_OK;
    if (renewer->wake_fd < 0)
        renewer->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (renewer->timer_fd < 0)
        renewer->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (renewer->wake_fd < 0 || renewer->timer_fd < 0)
        return dl_error(err, DLOCK_NOMEM, "no descriptor for the renewer");
    rc = dl_own_thread_start(&renewer->thread, renewer_main, client);
    if (rc != 0)
        return dl_error(err, DLOCK_NOMEM, "cannot start the renewer thread: %s",
                        strerrordesc_np(rc));
    renewer->running = true;
    return DLOCK_OK;
}

void dl_renewer_stop(struct dlock_client *client)
{
    struct dl_renewer *renewer = client->renewer;
    bool running;

    (void)pthread_mutex_lock(&client->mutex);
    running = renewer->running;
    renewer->stop = true;
    dl_renew_schedule_wake_locked(client);
    (void)pthread_mutex_unlock(&client->mutex);
    if (!running)
        return;
    (void)pthread_join(renewer->thread, NULL);
    (void)pthread_mutex_lock(&client->mutex);
    renewer->running = false;
    (void)pthread_mutex_unlock(&client->mutex);
}
