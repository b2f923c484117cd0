/* SPDX-License-Identifier: MIT */
#include "keeper.h"
#include "dispatch.h"
#include "error.h"
#include "hold.h"
#include "renew.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define AWAKE_NS INT64_MIN

/* How late the keeper may wake up because it stood still while it armed its timer. */
#define ARMED_WITHIN_NS DL_NS_PER_MS

/* Who wants short exchanges may be gone: it is looked at again after this time, and not sooner than
 * an exchange may last. */
#define BOUND_LIFE_NS DL_NS_PER_S

/* A handle that holds nothing may have a ttl of milliseconds: renewals of others get this long all
 * the same, and the news of a loss of its next lease may come as much later. */
#define NOT_HELD_LEAST_NS (200 * DL_NS_PER_MS)

void dl_keeper_init(struct dl_keeper *keeper)
{
    *keeper = (struct dl_keeper){
        .wake_fd = -1, .timer_fd = -1, .bound_ns = DL_NEVER, .armed_ns = AWAKE_NS};
}

void dl_keeper_fini(struct dl_keeper *keeper)
{
    if (keeper->wake_fd >= 0)
        (void)close(keeper->wake_fd);
    if (keeper->timer_fd >= 0)
        (void)close(keeper->timer_fd);
    dl_schedule_fini(&keeper->schedule);
    dl_schedule_fini(&keeper->ends);
}

static struct dlock *due_lock(struct dl_due *due)
{
    return (struct dlock *)(void *)((char *)due - offsetof(struct dlock, due));
}

static struct dlock *end_lock(struct dl_due *end)
{
    return (struct dlock *)(void *)((char *)end - offsetof(struct dlock, end));
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

bool dl_keeper_reserve(struct dlock_client *client)
{
    struct dl_keeper *keeper = &client->keeper;

    if (!dl_schedule_reserve(&keeper->schedule))
        return false;
    if (dl_schedule_reserve(&keeper->ends))
        return true;
    dl_schedule_unreserve(&keeper->schedule);
    return false;
}

void dl_keeper_unreserve(struct dlock_client *client)
{
    dl_schedule_unreserve(&client->keeper.schedule);
    dl_schedule_unreserve(&client->keeper.ends);
}

void dl_keeper_wake(struct dlock_client *client)
{
    struct dl_keeper *keeper = &client->keeper;

    if (!keeper->running || keeper->armed_ns == AWAKE_NS)
        return;
    keeper->armed_ns = AWAKE_NS;
    (void)eventfd_write(keeper->wake_fd, 1); /* cannot block: it is read after every wake */
}

void dl_keeper_set(struct dlock_client *client, struct dlock *lock, int64_t at_ns)
{
    dl_schedule_set(&client->keeper.schedule, &lock->due, at_ns);
    if (at_ns < client->keeper.armed_ns)
        dl_keeper_wake(client);
}

void dl_keeper_remove(struct dlock_client *client, struct dlock *lock)
{
    dl_schedule_remove(&client->keeper.schedule, &lock->due);
    dl_schedule_remove(&client->keeper.ends, &lock->end);
}

/* How long an exchange for others may last for the sake of this handle, the end of its lease aside.
 */
static int64_t bound_of(const struct dlock *lock)
{
    int64_t most_ns = later(lock->terms->ttl_ms * (DL_NS_PER_MS / 5), NOT_HELD_LEAST_NS);

    return lock->end.place == 0 ? most_ns : earlier(most_ns, dl_renewal_bound_ns(&lock->renewal));
}

void dl_keeper_heed(struct dlock_client *client, const struct dlock *lock)
{
    client->keeper.bound_ns = earlier(client->keeper.bound_ns, bound_of(lock));
}

void dl_keeper_hold(struct dlock_client *client, struct dlock *lock)
{
    dl_schedule_set(&client->keeper.ends, &lock->end, dl_lease_until_ns(&lock->lease));
    dl_keeper_heed(client, lock);
    dl_keeper_set(client, lock, dl_renewal_look_ns(&lock->renewal, &lock->lease));
}

bool dl_keeper_is_self(const struct dlock_client *client)
{
    return client->keeper.running && pthread_equal(client->keeper.thread, pthread_self()) != 0;
}

static bool losses_wait(const struct dlock_client *client)
{
    return client->on_lost != NULL && client->events.first != NULL;
}

/* A callback may wait for any handle: none is kept busy across it. */
static void batch_drop(struct dlock_client *client, size_t n, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++) {
        client->keeper.batch[i]->keeper_busy = false;
        dl_keeper_set(client, client->keeper.batch[i], now_ns);
    }
}

/* Leases that have run out are lost, whatever else is due. With the mutex held. */
static void ended_lose(struct dlock_client *client, int64_t now_ns)
{
    struct dl_due *end = dl_schedule_first(&client->keeper.ends);

    while (end != NULL && end->at_ns <= now_ns) {
        (void)dl_hold_due_locked(end_lock(end), now_ns, 0);
        end = dl_schedule_first(&client->keeper.ends);
    }
}

/* Handles whose renewal is due, and those that may join them, marked keeper_busy; losses go to the
 * queue, and come first. With the mutex held. */
static size_t batch_collect(struct dlock_client *client, int64_t now_ns)
{
    struct dl_keeper *keeper = &client->keeper;
    /* [SES-1]: a ping each, and whoever is not pinged just now is not kept busy. */
    size_t most = dl_client_has(client, DLOCK_CAP_SESSION) ? 1 : DL_KEEPER_BATCH;
    size_t n = 0;

    ended_lose(client, now_ns);
    while (n < most && !losses_wait(client)) {
        struct dl_due *due = dl_schedule_first(&keeper->schedule);
        struct dlock *lock;
        int64_t early_ns = 0;
        bool is_early;

        if (due == NULL)
            return n;
        lock = due_lock(due);
        if (n > 0)
            early_ns = dl_renewal_early_ns(&lock->renewal);
        is_early = due->at_ns > now_ns;
        if (due->at_ns - early_ns > now_ns)
            return n;
        if (!dl_hold_due_locked(lock, now_ns, early_ns)) {
            if (is_early) /* its time may still be the first */
                return n;
            continue;
        }
        /* The next moment to look at it, should the exchange decide nothing. */
        dl_keeper_set(client, lock, dl_lease_until_ns(&lock->lease));
        lock->keeper_busy = true;
        dl_renew_prepare_locked(lock);
        keeper->batch[n] = lock;
        keeper->ops[n].req = &lock->claim->req;
        n++;
    }
    if (!losses_wait(client))
        return n;
    batch_drop(client, n, now_ns);
    return 0;
}

/* With the mutex held. */
static void bound_look(struct dlock_client *client, int64_t now_ns)
{
    struct dl_keeper *keeper = &client->keeper;

    if (now_ns - keeper->bound_seen_ns < later(keeper->bound_ns, BOUND_LIFE_NS))
        return;
    keeper->bound_seen_ns = now_ns;
    keeper->bound_ns = DL_NEVER;
    for (struct dlock *lock = client->locks; lock != NULL; lock = lock->next)
        dl_keeper_heed(client, lock);
}

/* Until when an exchange for these n handles that begins now may last, for the sake of every lease
 * of the client, and of those that handles may get meanwhile. With the mutex held. */
static int64_t exchange_until(struct dlock_client *client, struct dlock *const *locks, size_t n,
                              int64_t now_ns)
{
    const struct dl_due *end;
    int64_t most_ns;

    ended_lose(client, now_ns);
    bound_look(client, now_ns);
    end = dl_schedule_first(&client->keeper.ends);
    most_ns = client->keeper.bound_ns;
    if (end != NULL)
        most_ns = earlier(most_ns, end->at_ns - now_ns);
    for (size_t i = 0; i < n; i++)
        most_ns =
            earlier(most_ns, dl_renewal_exchange_ns(&locks[i]->renewal,
                                                    locks[i]->terms->op_timeout_ms * DL_NS_PER_MS));
    return now_ns + most_ns;
}

/* One exchange for the n handles of the batch, without the mutex. */
static void batch_exchange(struct dlock_client *client, size_t n)
{
    struct dlock *first = client->keeper.batch[0];
    struct dlock_lease_op *ops = client->keeper.ops;
    struct dl_session *session;
    struct dlock_error err;
    enum dlock_status status;
    int64_t deadline_ns, sent_ns;

    (void)pthread_mutex_lock(&client->mutex);
    deadline_ns = exchange_until(client, client->keeper.batch, n, dl_client_now(client));
    client->keeper.busy_until_ns = deadline_ns;
    (void)pthread_mutex_unlock(&client->mutex);
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

static void busy_end_locked(struct dlock *lock)
{
    lock->keeper_busy = false;
    dl_lock_changed_locked(lock);
}

/* What came too late for its claim: the store should be told. With the mutex held. */
static bool is_stale(struct dlock_client *client, size_t i)
{
    struct dlock *lock = client->keeper.batch[i];
    const struct dlock_lease_op *op = &client->keeper.ops[i];
    int64_t now_ns = dl_client_now(client);
    bool stale;

    if (dl_lease_state(&lock->lease, now_ns) == DLOCK_STATE_FREE)
        /* An unlock waits: of a held lock it will send a release, of a lost one nothing. */
        return op->status == DLOCK_OK && lock->told;
    (void)dl_hold_renewed_locked(lock, client->keeper.sent_ns[i], now_ns, op->status, &op->grant,
                                 &stale);
    return stale;
}

/* With the mutex held, which it gives up during the callbacks. */
static void losses_report(struct dlock_client *client)
{
    while (losses_wait(client)) {
        struct dlock_event event = dl_hold_event_locked(dl_events_pop(&client->events));

        event.lock->in_callback = true;
        (void)pthread_mutex_unlock(&client->mutex);
        client->on_lost(client->on_lost_arg, &event);
        (void)pthread_mutex_lock(&client->mutex);
        event.lock->in_callback = false;
        dl_lock_changed_locked(event.lock);
    }
}

/* Who need not wait for an exchange does not. With the mutex held, which it gives up meanwhile. */
static void batch_apply(struct dlock_client *client, size_t n)
{
    struct dl_keeper *keeper = &client->keeper;
    size_t stale = 0;

    for (size_t i = 0; i < n; i++) {
        if (is_stale(client, i))
            keeper->batch[stale++] = keeper->batch[i];
        else
            busy_end_locked(keeper->batch[i]);
    }
    for (size_t i = 0; i < stale; i++) {
        int64_t deadline_ns;

        ended_lose(client, dl_client_now(client));
        losses_report(client);
        deadline_ns = exchange_until(client, &keeper->batch[i], stale - i, dl_client_now(client));
        keeper->busy_until_ns = deadline_ns;
        (void)pthread_mutex_unlock(&client->mutex);
        dl_claim_give_back(client, keeper->batch[i]->claim, DL_USE_KEEPER, deadline_ns);
        (void)pthread_mutex_lock(&client->mutex);
        keeper->busy_until_ns = 0;
        busy_end_locked(keeper->batch[i]);
    }
}

/* With the mutex held, which it gives up during the exchange. */
static void batch_renew(struct dlock_client *client, size_t n)
{
    (void)pthread_mutex_unlock(&client->mutex);
    batch_exchange(client, n);
    (void)pthread_mutex_lock(&client->mutex);
    client->keeper.busy_until_ns = 0;
    batch_apply(client, n);
}

static bool is_left(struct dlock *lock, int64_t now_ns)
{
    return lock->phase == DL_PHASE_IDLE && !lock->keeper_busy && lock->claim->pinned != NULL &&
           dl_lease_state(&lock->lease, now_ns) == DLOCK_STATE_LOST;
}

/* SESSION backends: the store cannot know that a claim ran out (renew=off, max_hold), and would
 * keep others waiting until the application acknowledges the loss. With the mutex held, which it
 * gives up meanwhile. false: there was none. */
static bool lost_session_end(struct dlock_client *client)
{
    struct dlock *lock = dl_client_has(client, DLOCK_CAP_SESSION) ? client->locks : NULL;
    int64_t now_ns = dl_client_now(client);

    while (lock != NULL && !is_left(lock, now_ns))
        lock = lock->next;
    if (lock == NULL)
        return false;
    lock->keeper_busy = true;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_claim_forget(client, lock->claim);
    dl_claim_unpin(client, lock->claim, DLOCK_LOST);
    (void)pthread_mutex_lock(&client->mutex);
    lock->keeper_busy = false;
    dl_lock_changed_locked(lock);
    return true;
}

/* With the mutex held, which it gives up meanwhile. */
static void sessions_trim(struct dlock_client *client)
{
    (void)pthread_mutex_unlock(&client->mutex);
    dl_pool_trim(&client->pool);
    (void)pthread_mutex_lock(&client->mutex);
}

/* DL_NEVER disarms it. The clock need not be the timer's, which counts from now on: if we stand
 * still before it does, it is armed again. */
static void timer_arm(const struct dlock_client *client, int64_t at_ns)
{
    int64_t now_ns;

    do {
        struct itimerspec timer = {{0, 0}, {0, 0}};

        now_ns = dl_client_now(client);
        if (at_ns != DL_NEVER) {
            int64_t left_ns = later(at_ns - now_ns, 1); /* 0 would disarm it */

            timer.it_value.tv_sec = (time_t)(left_ns / DL_NS_PER_S);
            timer.it_value.tv_nsec = (long)(left_ns % DL_NS_PER_S);
        }
        (void)timerfd_settime(client->keeper.timer_fd, 0, &timer, NULL);
    } while (dl_client_now(client) - now_ns > ARMED_WITHIN_NS);
}

/* Sleeps until at_ns or a wake. With the mutex held, which it gives up meanwhile. */
static void keeper_sleep(struct dlock_client *client, int64_t at_ns)
{
    struct dl_keeper *keeper = &client->keeper;
    struct pollfd fds[2] = {{.fd = keeper->wake_fd, .events = POLLIN},
                            {.fd = keeper->timer_fd, .events = POLLIN}};
    eventfd_t count;

    keeper->armed_ns = at_ns;
    (void)pthread_mutex_unlock(&client->mutex);
    timer_arm(client, at_ns);
    (void)poll(fds, 2, -1);
    if ((fds[0].revents & POLLIN) != 0)
        (void)eventfd_read(keeper->wake_fd, &count);
    (void)pthread_mutex_lock(&client->mutex);
    keeper->armed_ns = AWAKE_NS;
}

static void *keeper_main(void *arg)
{
    struct dlock_client *client = arg;
    struct dl_keeper *keeper = &client->keeper;

    (void)pthread_mutex_lock(&client->mutex);
    while (!keeper->stop) {
        int64_t now_ns = dl_client_now(client);
        size_t n = batch_collect(client, now_ns);
        struct dl_due *next = dl_schedule_first(&keeper->schedule);
        int64_t trim_ns = dl_pool_trim_ns(&client->pool, now_ns);

        if (n > 0)
            batch_renew(client, n);
        else if (losses_wait(client))
            losses_report(client);
        else if (trim_ns <= now_ns)
            sessions_trim(client);
        else if (!lost_session_end(client))
            keeper_sleep(client, next == NULL ? trim_ns : earlier(next->at_ns, trim_ns));
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return NULL;
}

static int thread_start(struct dlock_client *client)
{
    sigset_t all, before;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* C10: ours take no signal */
    rc = pthread_create(&client->keeper.thread, NULL, keeper_main, client);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

enum dlock_status dl_keeper_start(struct dlock_client *client, struct dlock_error *err)
{
    struct dl_keeper *keeper = &client->keeper;
    int rc;

    if (keeper->running)
        return DLOCK_OK;
    if (keeper->wake_fd < 0)
        keeper->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (keeper->timer_fd < 0)
        keeper->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (keeper->wake_fd < 0 || keeper->timer_fd < 0)
        return dl_error(err, DLOCK_NOMEM, "no descriptor for the keeper");
    rc = thread_start(client);
    if (rc != 0)
        return dl_error(err, DLOCK_NOMEM, "cannot start the keeper thread: %s",
                        strerrordesc_np(rc));
    keeper->running = true;
    return DLOCK_OK;
}

void dl_keeper_stop(struct dlock_client *client)
{
    struct dl_keeper *keeper = &client->keeper;
    bool running;

    (void)pthread_mutex_lock(&client->mutex);
    running = keeper->running;
    keeper->stop = true;
    dl_keeper_wake(client);
    (void)pthread_mutex_unlock(&client->mutex);
    if (!running)
        return;
    (void)pthread_join(keeper->thread, NULL);
    (void)pthread_mutex_lock(&client->mutex);
    keeper->running = false;
    (void)pthread_mutex_unlock(&client->mutex);
}
