/* SPDX-License-Identifier: MIT */
#include "hold/renewer.h"
#include "hold/held.h"
#include "hold/renew_batch.h"
#include "hold/renew_schedule.h"
#include "sys/error.h"
#include "sys/own_thread.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

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
    while (dl_renew_batch_losses_pending_locked(client)) {
        struct dlock_notice event = dl_held_event_locked(dl_events_pop(&client->events));

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
    dl_renew_batch_busy_end_locked(lock);
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
    deadline_ns = dl_renew_batch_until_locked(client, &lock, 1, dl_client_now(client));
    if (dl_renew_batch_losses_pending_locked(client))
        return true;
    (void)dl_renew_schedule_take_give_back_locked(lock);
    lock->renewer_busy = true;
    renewer->busy_until_ns = deadline_ns;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_claim_give_back(client, lock->claim, DL_USE_RENEWER, deadline_ns);
    (void)pthread_mutex_lock(&client->mutex);
    renewer->busy_until_ns = 0;
    dl_renew_batch_busy_end_locked(lock);
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
        size_t n = dl_renew_batch_collect_locked(client, now_ns);
        struct dl_due *next = dl_schedule_first(&renewer->schedule);
        int64_t trim_ns = dl_session_pool_trim_ns(&client->pool, now_ns);

        if (n > 0)
            dl_renew_batch_renew_locked(client, n);
        else if (dl_renew_batch_losses_pending_locked(client))
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
