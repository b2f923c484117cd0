/* SPDX-License-Identifier: MIT */
#include "api/client.h"
#include "acquire/acquire.h"
#include "async/driver.h"
#include "hold/deadman.h"
#include "hold/renew_schedule.h"
#include "hold/renewer.h"
#include "hold/run_queue.h"
#include "hold/unlock.h"
#include "sys/error.h"

#include <stdlib.h>

/* Frees a client that nothing else refers to; nothing is connected. */
static void client_free(struct dlock_client *client)
{
    dl_wait_combine_fini(&client->releases);
    dl_wait_combine_fini(&client->tries);
    (void)pthread_cond_destroy(&client->call_ended);
    (void)pthread_mutex_destroy(&client->mutex);
    dl_run_queue_free(client->run_queue);
    dl_events_fini(&client->events);
    dl_log_lines_write(client->log_lines, NULL);
    dl_deadman_free(client);
    dl_renew_schedule_close(client->renewer);
    dl_renew_schedule_free(client->renewer);
    dl_store_free(client->store);
    dl_lock_options_unref(client->last_options);
    dl_stats_fini(&client->stats);
    free(client->opening);
    free(client);
}

/* The store does not change once it is open. */
void dl_client_unref_after_fork(struct dlock_client *client)
{
    if (--client->refs > 0)
        return;
    dl_events_fini(&client->events);
    dl_deadman_free_after_fork(client);
    dl_renew_schedule_close(client->renewer);
    dl_store_free(client->store);
    free(client);
}

void dl_client_unref(struct dlock_client *client)
{
    size_t refs;

    (void)pthread_mutex_lock(&client->mutex);
    refs = --client->refs;
    (void)pthread_mutex_unlock(&client->mutex);
    if (refs == 0)
        client_free(client);
}

enum dlock_status dl_client_call_begin(struct dlock_client *client, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    (void)pthread_mutex_lock(&client->mutex);
    if (client->shutdown)
        status = dl_error(err, DLOCK_CLOSED, "the client is shut down");
    else
        client->calls++;
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

void dl_client_call_end(struct dlock_client *client)
{
    (void)pthread_mutex_lock(&client->mutex);
    client->calls--;
    (void)pthread_cond_broadcast(&client->call_ended);
    (void)pthread_mutex_unlock(&client->mutex);
}

/* The renewer closes sessions that have been idle for too long: it has to know when. */
static void session_made(void *arg)
{
    struct dlock_client *client = arg;

    (void)pthread_mutex_lock(&client->mutex);
    dl_renew_schedule_wake_locked(client);
    (void)pthread_mutex_unlock(&client->mutex);
}

/* The first thread of the driver gives the session back that it waits in. */
static void session_wanted(void *arg)
{
    struct dlock_client *client = arg;

    (void)pthread_mutex_lock(&client->mutex);
    if (client->run_queue != NULL && client->run_queue->rouse != NULL)
        dl_run_queue_rouse_locked(client->run_queue);
    (void)pthread_mutex_unlock(&client->mutex);
}

/* dlock_host.session_caps */
static void session_caps(void *arg, void *self, uint64_t caps)
{
    struct dlock_client *client = arg;

    (void)self;
    dl_session_pool_caps_limit(&client->pool, caps);
}

/* dlock_host.connection */
static void connection(void *arg, enum dlock_connection_event event)
{
    struct dlock_client *client = arg;

    dl_session_pool_count(&client->pool, event);
}

/* The mutex is adaptive: it is never held for as long as it takes to go to sleep. */
static bool mutex_init(struct dlock_client *client)
{
    pthread_mutexattr_t attr;
    bool done;

    if (pthread_mutexattr_init(&attr) != 0)
        return false;
    done = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP) == 0 &&
           pthread_mutex_init(&client->mutex, &attr) == 0;
    (void)pthread_mutexattr_destroy(&attr);
    return done;
}

static bool sync_init(struct dlock_client *client)
{
    if (!mutex_init(client))
        return false;
    if (dl_deadline_cond_init(&client->call_ended) != 0)
        goto no_cond;
    if (dl_wait_combine_init(&client->tries) != 0)
        goto no_tries;
    if (dl_wait_combine_init(&client->releases) == 0)
        return true;
    dl_wait_combine_fini(&client->tries);
no_tries:
    (void)pthread_cond_destroy(&client->call_ended);
no_cond:
    (void)pthread_mutex_destroy(&client->mutex);
    return false;
}

static enum dlock_status client_alloc(const struct dlock_client_options *options,
                                      struct dlock_client **out, struct dlock_error *err)
{
    struct dlock_client *client = calloc(1, sizeof *client);
    struct dl_log log = {NULL, NULL};

    if (client == NULL || !sync_init(client)) {
        free(client);
        return dl_error(err, DLOCK_NOMEM, "no memory for a client");
    }
    if (options != NULL) {
        log = (struct dl_log){options->log, options->log_arg};
        client->on_lost = options->on_lost;
        client->on_lost_arg = options->on_lost_arg;
    }
    dl_host_init(&client->host, log);
    client->renewer = dl_renew_schedule_new();
    client->events.fd = -1;
    client->refs = 1;
    client->generation = dl_fork_generation();
    if (client->renewer == NULL || client->generation == 0 ||
        client->host.random(&client->jitter, sizeof client->jitter) != 0 ||
        dl_events_init(&client->events, client->on_lost == NULL) != 0) {
        client_free(client);
        return dl_error(err, DLOCK_NOMEM, "no memory, descriptor or random bytes for a client");
    }
    client->jitter |= 1;
    *out = client;
    return DLOCK_OK;
}

typedef enum dlock_status reach_fn(struct dlock_client *client, struct dlock_error *err);

static enum dlock_status client_connect(struct dlock_client *client, reach_fn *reach,
                                        struct dlock_error *err)
{
    const struct dl_settings *settings = &client->store->settings;
    enum dlock_status status;

    client->plugin = client->store->plugin;
    client->host.session_caps = session_caps;
    client->host.session_made = session_made;
    client->host.session_wanted = session_wanted;
    client->host.connection = connection;
    client->host.session_arg = client;
    status =
        dl_session_pool_init(&client->pool, client->plugin, &client->store->target, &client->host,
                             settings->connect_timeout_ms, settings->connections, err);
    if (status != DLOCK_OK)
        return status;
    status = reach(client, err);
    if (status != DLOCK_OK)
        dl_session_pool_fini(&client->pool, false);
    return status;
}

/* status: the result of opening the store. */
static enum dlock_status client_finish(struct dlock_client *client, enum dlock_status status,
                                       reach_fn *reach, struct dlock_client **out,
                                       struct dlock_error *err)
{
    if (status == DLOCK_OK)
        status = client_connect(client, reach, err);
    if (status == DLOCK_OK)
        *out = client;
    else
        client_free(client);
    return status;
}

static enum dlock_status open_by(reach_fn *reach, const char *uri,
                                 const struct dlock_client_options *options,
                                 struct dlock_client **out, struct dlock_error *err)
{
    struct dlock_client *client;
    enum dlock_status status = client_alloc(options, &client, err);

    if (status != DLOCK_OK)
        return status;
    status = dl_store_open(uri, options, &client->host.table, &client->store, err);
    return client_finish(client, status, reach, out, err);
}

enum dlock_status dl_client_open(const char *uri, const struct dlock_client_options *options,
                                 struct dlock_client **out, struct dlock_error *err)
{
    return open_by(dl_driver_reach, uri, options, out, err);
}

enum dlock_status dl_client_open_start(const char *uri, const struct dlock_client_options *options,
                                       struct dlock_client **out, struct dlock_error *err)
{
    if (options != NULL && options->on_lost != NULL)
        return dl_error(err, DLOCK_INVALID,
                        "a client with on_lost has no notices: dlock_client_open_start needs them");
    return open_by(dl_driver_open, uri, options, out, err);
}

enum dlock_status dl_client_open_static(const struct dlock_plugin *descriptor, const char *uri,
                                        const struct dlock_client_options *options,
                                        const struct dl_host *host, struct dlock_client **out,
                                        struct dlock_error *err)
{
    struct dlock_client *client;
    enum dlock_status status = client_alloc(options, &client, err);

    if (status != DLOCK_OK)
        return status;
    if (host != NULL) {
        client->host.clock = host->clock;
        client->host.random = host->random;
        if (host->kill_timer.open != NULL)
            client->host.kill_timer = host->kill_timer;
    }
    status =
        dl_store_open_static(descriptor, uri, options, &client->host.table, &client->store, err);
    return client_finish(client, status, dl_driver_reach, out, err);
}

/* After one unlock failed: enough for a store that answers, and many such are within the deadline
 * of all. */
#define DL_CLOSE_TRY_NS INT64_C(200000000)

void dl_client_shutdown(struct dlock_client *client)
{
    (void)pthread_mutex_lock(&client->mutex);
    client->shutdown = true;
    dl_acquire_cancel_all_locked(client, DLOCK_CLOSED);
    (void)pthread_cond_broadcast(&client->call_ended); /* of calls that observe */
    (void)pthread_mutex_unlock(&client->mutex);
}

/* A handle that is in a call, held, or lost, or whose unlock failed: also the last two may have a
 * session and a slot. Other handles are moved to the tail, so that each of many is passed once. */
static struct dlock_handle *find_active_locked(struct dlock_client *client)
{
    int64_t now_ns = dl_client_now(client);
    const struct dlock_handle *passed = NULL;

    for (struct dlock_handle *lock = client->locks; lock != passed; lock = client->locks) {
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
static void drain_one_locked(struct dlock_handle *lock, struct drained *drained)
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
    struct dlock_handle *lock;

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
