/* SPDX-License-Identifier: MIT */
#include "api/client.h"
#include "acquire/driver.h"
#include "acquire/opening.h"
#include "api/client_ref.h"
#include "hold/renew_schedule.h"
#include "hold/run_queue.h"
#include "sys/error.h"

#include <stdlib.h>

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
static void session_caps(void *arg, void *self, uint32_t caps)
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
    if (dl_combine_init(&client->tries) != 0)
        goto no_tries;
    if (dl_combine_init(&client->releases) == 0)
        return true;
    dl_combine_fini(&client->tries);
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
        dl_client_free(client);
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
        dl_client_free(client);
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
    return open_by(dl_opening_reach, uri, options, out, err);
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
    }
    status =
        dl_store_open_static(descriptor, uri, options, &client->host.table, &client->store, err);
    return client_finish(client, status, dl_opening_reach, out, err);
}
