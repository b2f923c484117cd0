/* SPDX-License-Identifier: MIT */
#include "api/client_close.h"
#include "acquire/cancel.h"
#include "acquire/driver.h"
#include "api/client_ref.h"
#include "hold/renewer.h"
#include "hold/unlock.h"
#include "sys/error.h"

/* After one unlock failed: enough for a store that answers, and many such are within the deadline
 * of all. */
#define DL_CLOSE_TRY_NS INT64_C(200000000)

void dl_client_shutdown(struct dlock_client *client)
{
    (void)pthread_mutex_lock(&client->mutex);
    client->shutdown = true;
    dl_cancel_all_locked(client, DLOCK_CLOSED);
    (void)pthread_cond_broadcast(&client->call_ended); /* of calls that observe */
    (void)pthread_mutex_unlock(&client->mutex);
}

/* A handle that is in a call, held, or lost, or whose unlock failed: also the last two may have a
 * session and a slot. Other handles are moved to the tail, so that each of many is passed once. */
static struct dlock *find_active_locked(struct dlock_client *client)
{
    int64_t now_ns = dl_client_now(client);
    const struct dlock *passed = NULL;

    for (struct dlock *lock = client->locks; lock != passed; lock = client->locks) {
        if (lock->phase != DL_PHASE_IDLE || dl_unlock_pends_locked(lock) ||
            dl_lease_state(&lock->lease, now_ns) != DLOCK_STATE_FREE)
            return lock;
        if (passed == NULL)
            passed = lock;
        dl_handle_move_to_tail_locked(lock);
    }
    return NULL;
}

/* The result of the unlocks of a client that is closed. */
struct drained {
    int64_t until_ns; /* the deadline of all unlocks */
    bool failing;     /* an unlock failed: each further one gets DL_CLOSE_TRY_NS */
    unsigned left;    /* locks that were not unlocked, and end with their leases */
    struct dlock_error err;
};

/* Whether the store as a whole may fail: it is not known, for a row that another transaction has
 * locked looks the same, and so does one shard of many. */
static bool is_failing(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE || status == DLOCK_NO_QUORUM;
}

/* Unlocks one handle. Releases the mutex during the exchange. */
static void drain_one_locked(struct dlock *lock, struct drained *drained)
{
    struct dlock_client *client = lock->client; /* the handle may be freed during the exchange */
    struct dlock_error err = DLOCK_ERROR_INIT;
    int64_t until_ns = drained->until_ns;
    enum dlock_status status;

    if (drained->failing)
        until_ns = dl_earlier(until_ns, dl_client_now(client) + DL_CLOSE_TRY_NS);
    status = dl_unlock_whole_locked(lock, until_ns, &err);
    if (status == DLOCK_OK || dlock_status_class((int)status) == DLOCK_CLASS_OUTCOME)
        return;
    if (drained->left++ == 0)
        drained->err = err;
    if (!is_failing(status) || drained->failing)
        return;
    drained->failing = true;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_renewer_stop(client); /* its renewals would delay one unlock after the other */
    (void)pthread_mutex_lock(&client->mutex);
}

/* Waits until all calls have ended, and unlocks all handles. It waits for calls that acquire first:
 * they could still get a lock that is unlocked here. Takes the mutex, and returns with it held and
 * no call in progress. */
static void client_drain(struct dlock_client *client, struct drained *drained)
{
    struct dlock *lock;

    *drained = (struct drained){.until_ns = DL_NEVER};
    (void)pthread_mutex_lock(&client->mutex);
    for (;;) {
        lock = client->acquiring > 0 ? NULL : find_active_locked(client);
        if (lock == NULL && client->acquiring == 0 && client->calls == 0)
            return;
        if (lock == NULL || lock->phase != DL_PHASE_IDLE) {
            (void)pthread_cond_wait(&client->call_ended, &client->mutex);
            continue;
        }
        if (dl_unlock_pends_locked(lock)) {
            dl_unlock_give_up_locked(lock);
            continue;
        }
        if (drained->until_ns == DL_NEVER)
            drained->until_ns = dl_clock_after_ms(dl_client_now(client),
                                                  client->store->settings.connect_timeout_ms);
        drain_one_locked(lock, drained);
    }
}

/* In the child of a fork no mutex can be used: another thread of the parent may have held it. */
static void close_after_fork(struct dlock_client *client)
{
    dl_session_pool_fini(&client->pool, true);
    dl_client_unref_after_fork(client);
}

void dl_client_close(struct dlock_client *client)
{
    struct drained drained;
    struct dl_log_lines lines;
    bool self;

    if (dl_client_forked(client)) {
        close_after_fork(client);
        return;
    }
    (void)pthread_mutex_lock(&client->mutex);
    self = dl_renewer_is_self_locked(client);
    (void)pthread_mutex_unlock(&client->mutex);
    if (self) {
        dl_log(&client->host.log, DLOCK_LOG_ERROR,
               "dlock_client_close in a loss callback: refused");
        return;
    }
    dl_client_shutdown(client);
    client_drain(client, &drained);
    client->closed = true;
    (void)pthread_mutex_unlock(&client->mutex);
    if (drained.left > 0)
        dl_log(&client->host.log, DLOCK_LOG_WARNING,
               "dlock_client_close: %u held locks were not unlocked, and end with their leases: %s",
               drained.left, drained.err.message);
    dl_driver_stop(client);
    dl_renewer_stop(client);
    (void)pthread_mutex_lock(&client->mutex);
    lines = dl_log_lines_take_locked(&client->log_lines);
    (void)pthread_mutex_unlock(&client->mutex);
    dl_log_lines_write(lines, &client->host.log);
    dl_session_pool_fini(&client->pool, false);
    dl_client_unref(client);
}
