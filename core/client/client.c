/* SPDX-License-Identifier: MIT */
#include "client/client.h"
#include "hold/unlock.h"
#include "session/dispatch.h"
#include "sys/error.h"
#include "sys/fork.h"
#include "sys/random.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool dl_client_forked(const struct dlock_client *client)
{
    return dl_fork_differs(client->generation) != 0;
}

bool dl_client_has(const struct dlock_client *client, uint32_t cap)
{
    const struct dlock_session_info *first = dl_session_pool_first(&client->pool);

    return first != NULL && (first->caps & cap) != 0;
}

int64_t dl_client_now(const struct dlock_client *client)
{
    return dl_clock_now(&client->host.clock);
}

uint64_t dl_client_random(struct dlock_client *client)
{
    return dl_random_jitter(&client->jitter);
}

uint64_t dl_client_jitter(struct dlock_client *client)
{
    uint64_t random;

    (void)pthread_mutex_lock(&client->mutex);
    random = dl_client_random(client);
    (void)pthread_mutex_unlock(&client->mutex);
    return random;
}

/* dlock_host.session_down: what lives in that session has to be looked at now. */
static void session_down(void *arg, void *self)
{
    struct dlock_client *client = arg;
    int64_t now_ns = dl_client_now(client);

    (void)self;
    (void)pthread_mutex_lock(&client->mutex);
    for (struct dlock *lock = client->locks; lock != NULL; lock = lock->next)
        if (lock->due.place != 0 && lock->renewal.automatic) {
            lock->renewal.at_ns = now_ns;
            dl_renewer_set(client, lock, now_ns);
        }
    (void)pthread_mutex_unlock(&client->mutex);
}

/* The keeper looks when sessions may have idled for too long. */
static void session_made(void *arg)
{
    struct dlock_client *client = arg;

    (void)pthread_mutex_lock(&client->mutex);
    dl_renewer_wake(client);
    (void)pthread_mutex_unlock(&client->mutex);
}

/* dlock_host.session_caps */
static void session_caps(void *arg, void *self, uint32_t caps)
{
    struct dlock_client *client = arg;

    (void)self;
    dl_session_pool_caps_limit(&client->pool, caps);
}

static enum dlock_status client_alloc(const struct dlock_client_options *options,
                                      struct dlock_client **out, struct dlock_error *err)
{
    struct dlock_client *client = calloc(1, sizeof *client);
    struct dl_log log = {NULL, NULL};

    if (client == NULL)
        return dl_error(err, DLOCK_NOMEM, "no memory for a client");
    if (options != NULL) {
        log = (struct dl_log){options->log, options->log_arg};
        client->on_lost = options->on_lost;
        client->on_lost_arg = options->on_lost_arg;
    }
    dl_host_init(&client->host, log);
    dl_renewer_init(&client->keeper);
    client->events.fd = -1;
    client->refs = 1;
    client->generation = dl_fork_generation();
    if (client->generation == 0 ||
        client->host.random(&client->jitter, sizeof client->jitter) != 0 ||
        dl_events_init(&client->events, client->on_lost == NULL) != 0) {
        free(client);
        return dl_error(err, DLOCK_NOMEM, "no memory, descriptor or random bytes for a client");
    }
    client->jitter |= 1;
    *out = client;
    return DLOCK_OK;
}

/* What client_alloc and dl_store_open made; nothing is connected. */
static void client_free(struct dlock_client *client)
{
    dl_events_fini(&client->events);
    dl_renewer_fini(&client->keeper);
    dl_store_free(client->store);
    dl_lock_options_drop(client->terms);
    free(client);
}

/* It is never held for as long as going to sleep takes: who finds it locked looks again at first.
 */
static int mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    if (rc != 0)
        return rc;
    rc = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    if (rc == 0)
        rc = pthread_mutex_init(mutex, &attr);
    (void)pthread_mutexattr_destroy(&attr);
    return rc;
}

static enum dlock_status client_sync_init(struct dlock_client *client, struct dlock_error *err)
{
    if (mutex_init(&client->mutex) != 0)
        return dl_error(err, DLOCK_NOMEM, "no memory for a mutex");
    if (dl_deadline_cond_init(&client->quiet) != 0) {
        (void)pthread_mutex_destroy(&client->mutex);
        return dl_error(err, DLOCK_NOMEM, "no memory for a condition variable");
    }
    return DLOCK_OK;
}

static void client_sync_fini(struct dlock_client *client)
{
    (void)pthread_cond_destroy(&client->quiet);
    (void)pthread_mutex_destroy(&client->mutex);
}

/* The first session. */
static enum dlock_status client_reach(struct dlock_client *client, struct dlock_error *err)
{
    const struct dl_settings *settings = &client->store->settings;
    int64_t most_ms = settings->connect_timeout_ms;
    struct dl_session *session;
    enum dlock_status status;

    if (settings->wait_ms > 0 && settings->wait_ms < most_ms)
        most_ms = settings->wait_ms;
    status = dl_session_pool_take(&client->pool, DL_USE_HOLDER,
                                  dl_clock_after_ms(dl_client_now(client), most_ms), &session, err);
    if (status == DLOCK_OK)
        dl_session_pool_put(&client->pool, DL_USE_HOLDER, session, DLOCK_OK);
    return status;
}

/* An open client is one that has reached its store, unless it is to be lazy. */
static enum dlock_status client_connect(struct dlock_client *client, struct dlock_error *err)
{
    const struct dl_settings *settings = &client->store->settings;
    enum dlock_status status = client_sync_init(client, err);

    if (status != DLOCK_OK)
        return status;
    client->plugin = client->store->plugin;
    client->host.session_down = session_down;
    client->host.session_caps = session_caps;
    client->host.session_made = session_made;
    client->host.session_arg = client;
    status =
        dl_session_pool_init(&client->pool, client->plugin, &client->store->target, &client->host,
                             settings->connect_timeout_ms, settings->connections, err);
    if (status != DLOCK_OK) {
        client_sync_fini(client);
        return status;
    }
    if (!settings->lazy)
        status = client_reach(client, err);
    if (status != DLOCK_OK) {
        dl_session_pool_fini(&client->pool, false);
        client_sync_fini(client);
    }
    return status;
}

static enum dlock_status client_finish(struct dlock_client *client, struct dlock_client **out,
                                       struct dlock_error *err)
{
    enum dlock_status status = client_connect(client, err);

    if (status != DLOCK_OK)
        client_free(client);
    else
        *out = client;
    return status;
}

enum dlock_status dl_client_open(const char *uri, const struct dlock_client_options *options,
                                 struct dlock_client **out, struct dlock_error *err)
{
    struct dlock_client *client;
    enum dlock_status status = client_alloc(options, &client, err);

    if (status != DLOCK_OK)
        return status;
    status = dl_store_open(uri, options, &client->host.table, &client->store, err);
    if (status != DLOCK_OK) {
        client_free(client);
        return status;
    }
    return client_finish(client, out, err);
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
    }
    status =
        dl_store_open_static(descriptor, uri, options, &client->host.table, &client->store, err);
    if (status != DLOCK_OK) {
        client_free(client);
        return status;
    }
    return client_finish(client, out, err);
}

void dl_client_shutdown(struct dlock_client *client)
{
    (void)pthread_mutex_lock(&client->mutex);
    client->shutdown = true;
    dl_handle_cancel_all_locked(client, DLOCK_CLOSED);
    (void)pthread_mutex_unlock(&client->mutex);
}

/* A handle that is in a call, held, or lost: that one, too, may have a session and a slot. Others
 * go behind it, so that each of many is passed once. With the mutex held. */
static struct dlock *find_active(struct dlock_client *client)
{
    int64_t now_ns = dl_client_now(client);
    const struct dlock *passed = NULL;

    for (struct dlock *lock = client->locks; lock != passed; lock = client->locks) {
        if (lock->phase != DL_PHASE_IDLE ||
            dl_lease_state(&lock->lease, now_ns) != DLOCK_STATE_FREE)
            return lock;
        if (passed == NULL)
            passed = lock;
        dl_handle_put_last_locked(lock);
    }
    return NULL;
}

/* What came of the unlocks of a client that is closed. */
struct drained {
    int64_t until_ns; /* of all unlocks; 0: the store has failed one, and is asked no more */
    unsigned left;    /* to their leases */
    struct dlock_error err;
};

/* The store as a whole; another error may be of the one lock. */
static bool is_failing(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE || status == DLOCK_NO_QUORUM;
}

/* With the mutex held, which it gives up meanwhile. */
static void drain_one_locked(struct dlock *lock, struct drained *drained)
{
    struct dlock_client *client = lock->client; /* the handle may be freed meanwhile */
    struct dlock_error err;
    enum dlock_status status;

    dl_error_reset(&err);
    status = dl_unlock_whole_locked(lock, drained->until_ns, &err);
    if (status == DLOCK_OK || dlock_status_class((int)status) == DLOCK_CLASS_OUTCOME)
        return;
    if (drained->left++ == 0)
        drained->err = err;
    if (!is_failing(status) || drained->until_ns == 0)
        return;
    drained->until_ns = 0;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_renewer_stop(client); /* its renewals would hold up one unlock after the other */
    (void)pthread_mutex_lock(&client->mutex);
}

/* Waits for calls to end, and unlocks: first of all those that acquire, or they could still get
 * what is unlocked. Locks the mutex, and returns with it held and nothing going on. */
static void client_drain(struct dlock_client *client, struct drained *drained)
{
    struct dlock *lock;

    *drained = (struct drained){.until_ns = DL_NEVER};
    (void)pthread_mutex_lock(&client->mutex);
    for (;;) {
        lock = client->acquiring > 0 ? NULL : find_active(client);
        if (lock == NULL && client->acquiring == 0 && client->calls == 0)
            return;
        if (lock == NULL || lock->phase != DL_PHASE_IDLE) {
            (void)pthread_cond_wait(&client->quiet, &client->mutex);
            continue;
        }
        if (drained->until_ns == DL_NEVER)
            drained->until_ns = dl_clock_after_ms(dl_client_now(client),
                                                  client->store->settings.connect_timeout_ms);
        drain_one_locked(lock, drained);
    }
}

void dl_client_release_forked(struct dlock_client *client)
{
    if (--client->refs == 0)
        client_free(client);
}

/* In a forked child: other threads of the parent may have left the mutex locked. */
static void client_close_forked(struct dlock_client *client)
{
    dl_session_pool_fini(&client->pool, true);
    dl_client_release_forked(client);
}

void dl_client_close(struct dlock_client *client)
{
    struct drained drained;
    bool self;

    if (dl_client_forked(client)) {
        client_close_forked(client);
        return;
    }
    (void)pthread_mutex_lock(&client->mutex);
    self = dl_renewer_is_self(client);
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
    dl_renewer_stop(client);
    dl_session_pool_fini(&client->pool, false);
    dl_client_release(client);
}

enum dlock_status dl_client_enter(struct dlock_client *client, struct dlock_error *err)
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

void dl_client_leave(struct dlock_client *client)
{
    (void)pthread_mutex_lock(&client->mutex);
    client->calls--;
    (void)pthread_cond_broadcast(&client->quiet);
    (void)pthread_mutex_unlock(&client->mutex);
}

void dl_client_release(struct dlock_client *client)
{
    size_t refs;

    (void)pthread_mutex_lock(&client->mutex);
    refs = --client->refs;
    (void)pthread_mutex_unlock(&client->mutex);
    if (refs > 0)
        return;
    client_sync_fini(client);
    client_free(client);
}
