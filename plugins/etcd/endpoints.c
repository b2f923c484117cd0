/* SPDX-License-Identifier: MIT */
#include "endpoints.h"
#include "lib/time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int64_t now(const struct etcd_endpoints *endpoints)
{
    const struct dlock_host *host = endpoints->cluster.host;

    return host->now_ns(host->ctx);
}

bool etcd_endpoints_init(struct etcd_endpoints *endpoints, const struct etcd_config *config,
                         const struct dlock_host *host, struct tls *tls)
{
    int code = dl_deadline_cond_init(&endpoints->connected);

    if (code != 0) {
        errno = code;
        return false;
    }
    (void)pthread_mutex_init(&endpoints->mutex, NULL);
    endpoints->cluster.config = config;
    endpoints->cluster.host = host;
    endpoints->cluster.tls = tls;
    return true;
}

void etcd_endpoints_opened(struct etcd_endpoints *endpoints, struct etcd_member *member)
{
    (void)pthread_mutex_lock(&endpoints->mutex);
    endpoints->counts = true;
    *member = endpoints->member;
    (void)pthread_mutex_unlock(&endpoints->mutex);
}

static void connection_free(struct etcd_connection *connection)
{
    if (connection == NULL)
        return;
    etcd_channel_free(connection->channel);
    free(connection);
}

void etcd_endpoints_fini(struct etcd_endpoints *endpoints)
{
    if (endpoints->cluster.host == NULL)
        return;
    while (endpoints->connections != NULL) {
        struct etcd_connection *next = endpoints->connections->next;

        connection_free(endpoints->connections);
        endpoints->connections = next;
    }
    (void)pthread_cond_destroy(&endpoints->connected);
    (void)pthread_mutex_destroy(&endpoints->mutex);
    endpoints->cluster.host = NULL;
}

void etcd_endpoints_after_fork(struct etcd_endpoints *endpoints)
{
    for (struct etcd_connection *connection = endpoints->connections; connection != NULL;
         connection = connection->next)
        etcd_channel_after_fork(connection->channel);
}

/* ---- users ---- */

/* Returns the connection if it is to be freed, after the mutex. */
static struct etcd_connection *unref_locked(struct etcd_endpoints *endpoints,
                                            struct etcd_connection *connection)
{
    struct etcd_connection **at = &endpoints->connections;

    if (--connection->users > 0)
        return NULL;
    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
    return connection;
}

/* The present channel is not used any more if it is dead. */
static struct etcd_connection *dead_unref_locked(struct etcd_endpoints *endpoints)
{
    const struct dlock_host *host = endpoints->cluster.host;
    struct etcd_connection *connection = endpoints->present;

    if (connection == NULL || !etcd_channel_dead(connection->channel))
        return NULL;
    endpoints->present = NULL;
    if (endpoints->counts)
        host->connection(host->ctx, DLOCK_CONNECTION_BROKEN);
    return unref_locked(endpoints, connection);
}

void etcd_endpoints_put(struct etcd_endpoints *endpoints, struct etcd_connection *connection)
{
    struct etcd_connection *dead = NULL, *unused = NULL;

    (void)pthread_mutex_lock(&endpoints->mutex);
    dead = dead_unref_locked(endpoints);
    unused = unref_locked(endpoints, connection);
    (void)pthread_mutex_unlock(&endpoints->mutex);
    connection_free(dead);
    connection_free(unused);
}

/* ---- connecting ---- */

/* The errors of several members. */
struct failures {
    struct dlock_error down;  /* of the first member that may serve soon */
    struct dlock_error wrong; /* of the first one that a person must look at */
};

/* A wrong option, or no memory. */
static bool is_ours(const struct dlock_error *failure)
{
    return failure->status == DLOCK_INVALID || failure->status == DLOCK_NOMEM;
}

/* A login that was refused with a code of gRPC: by the cluster. Only a member of another cluster
 * would refuse what the others take. */
static bool is_of_all(const struct dlock_error *failure)
{
    return failure->status == DLOCK_AUTH && failure->code != 0;
}

static void failures_add(struct failures *failures, const struct dlock_error *failure)
{
    struct dlock_error *kept =
        failure->status == DLOCK_UNAVAILABLE ? &failures->down : &failures->wrong;

    if (kept->status == DLOCK_OK || is_of_all(failure))
        *kept = *failure;
}

/* A member that is wrong for good ends no wait while another one may serve again. */
static enum dlock_status failures_tell(const struct failures *failures, struct dlock_error *err)
{
    const struct dlock_error *down = &failures->down, *wrong = &failures->wrong;

    if (wrong->status == DLOCK_OK)
        return dlock_fail(err, ETCD_ORIGIN, down->status, down->code, "%s", down->message);
    if (down->status == DLOCK_OK || is_of_all(wrong))
        return dlock_fail(err, ETCD_ORIGIN, wrong->status, wrong->code, "%s", wrong->message);
    return dlock_fail(err, ETCD_ORIGIN, down->status, down->code, "%s; %s", wrong->message,
                      down->message);
}

/* Each member has an equal share of the time: if the last one hangs, others may serve again before
 * the deadline, as after an election, and core asks again. */
static enum dlock_status members_try(struct etcd_endpoints *endpoints, size_t first,
                                     int64_t deadline_ns, struct etcd_connection *connection,
                                     size_t *index, struct dlock_error *err)
{
    size_t count = endpoints->cluster.config->count;
    int64_t share_ns = (deadline_ns - now(endpoints)) / (int64_t)count;
    struct failures failures = {DLOCK_ERROR_INIT, DLOCK_ERROR_INIT};

    for (size_t i = 0; i < count; i++) {
        struct dlock_error failure = DLOCK_ERROR_INIT;

        *index = (first + i) % count;
        if (etcd_connect(&endpoints->cluster, *index, now(endpoints) + share_ns,
                         &connection->channel, &connection->member, &failure) == DLOCK_OK)
            return DLOCK_OK;
        if (is_ours(&failure))
            return dlock_fail(err, ETCD_ORIGIN, failure.status, failure.code, "%s",
                              failure.message);
        failures_add(&failures, &failure);
    }
    return failures_tell(&failures, err);
}

/* With the mutex held, which is given up meanwhile. The connection has the caller and the endpoints
 * as users. */
static enum dlock_status connection_make(struct etcd_endpoints *endpoints, int64_t deadline_ns,
                                         struct etcd_connection **out, struct dlock_error *err)
{
    const struct dlock_host *host = endpoints->cluster.host;
    size_t index = 0, first = endpoints->next_index;
    enum dlock_status status = DLOCK_NOMEM;
    const bool counts = endpoints->counts;

    endpoints->connecting = true;
    (void)pthread_mutex_unlock(&endpoints->mutex);
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        (void)dlock_fail(err, ETCD_ORIGIN, status, 0, "no memory for a connection");
    else
        status = members_try(endpoints, first, deadline_ns, *out, &index, err);
    if (status != DLOCK_OK) {
        free(*out);
        *out = NULL;
    }
    if (counts)
        host->connection(host->ctx,
                         status == DLOCK_OK ? DLOCK_CONNECTION_MADE : DLOCK_CONNECTION_FAILED);
    (void)pthread_mutex_lock(&endpoints->mutex);
    endpoints->connecting = false;
    (void)pthread_cond_broadcast(&endpoints->connected);
    if (status != DLOCK_OK)
        return status;
    endpoints->next_index = index + 1;
    endpoints->member = (*out)->member;
    (*out)->users = 2;
    (*out)->next = endpoints->connections;
    endpoints->connections = endpoints->present = *out;
    return status;
}

enum dlock_status etcd_endpoints_take(struct etcd_endpoints *endpoints, int64_t deadline_ns,
                                      struct etcd_connection **out, bool *fresh,
                                      struct dlock_error *err)
{
    struct etcd_connection *dead = NULL;
    enum dlock_status status = DLOCK_OK;

    *fresh = false;
    *out = NULL;
    (void)pthread_mutex_lock(&endpoints->mutex);
    dead = dead_unref_locked(endpoints);
    while (endpoints->present == NULL && status == DLOCK_OK) {
        int64_t left_ns = deadline_ns - now(endpoints);

        if (!endpoints->connecting) {
            *fresh = true;
            status = connection_make(endpoints, deadline_ns, out, err);
            break;
        }
        if (left_ns <= 0)
            status = dlock_fail(err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0, "no connection in time");
        else
            dl_deadline_cond_wait(&endpoints->connected, &endpoints->mutex, left_ns);
    }
    if (status == DLOCK_OK && !*fresh) {
        *out = endpoints->present;
        endpoints->present->users++;
    }
    (void)pthread_mutex_unlock(&endpoints->mutex);
    connection_free(dead);
    return status;
}
