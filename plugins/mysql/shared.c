/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include "connect.h"
#include "connect_thread.h"

#include <stdlib.h>

/* Connections that were idle for so long are closed, when a session of the client is closed: core
 * does the same with idle sessions. */
#define IDLE_NS (60 * DL_NS_PER_S)

/* The queues that the holders of a client may keep. */
#define KEPT_MOST 16

static struct my_shared *shared_of(struct client *client)
{
    return (struct my_shared *)(void *)client;
}

static struct client *shared_make(const struct dlock_host *host, const void *config)
{
    struct my_shared *shared = calloc(1, sizeof *shared);

    if (shared == NULL)
        return NULL;
    shared->config = *(const struct my_config *)config;
    my_control_init(&shared->control, &shared->config, host, &shared->tables);
    return &shared->client;
}

static void shared_after_fork(struct client *client)
{
    struct my_shared *shared = shared_of(client);

    my_control_after_fork(&shared->control);
    for (struct my_connection *conn = shared->idle; conn != NULL; conn = conn->next)
        my_connect_after_fork(conn);
}

static struct clients clients = {.make = shared_make, .after_fork = shared_after_fork};

bool my_shared_init(void)
{
    return clients_init(&clients);
}

struct my_shared *my_shared_find(const struct my_config *config, const struct dlock_host *host)
{
    return shared_of(clients_find(&clients, host, config));
}

void my_shared_ref(struct my_shared *shared)
{
    clients_ref(&shared->client);
}

/* Closes the connections that were idle for so long. The caller has a reference, or had the last.
 */
static void idle_close(struct my_shared *shared, int64_t idle_ns)
{
    const struct dlock_host *host = shared->client.host;
    const int64_t now_ns = host->now_ns(host->ctx);
    struct my_connection **at = &shared->idle, *old = NULL;

    clients_lock();
    while (*at != NULL && now_ns - (*at)->answered_ns < idle_ns)
        at = &(*at)->next;
    old = *at;
    *at = NULL;
    clients_unlock();
    while (old != NULL) {
        struct my_connection *conn = old;

        old = conn->next;
        my_connect_close(conn);
        free(conn);
    }
}

void my_shared_unref(struct my_shared *shared)
{
    idle_close(shared, IDLE_NS);
    if (!clients_unref(&clients, &shared->client))
        return;
    idle_close(shared, 0);
    my_connect_thread_end(shared->client.host);
    my_control_fini(&shared->control);
    free(shared);
}

struct my_connection *my_shared_idle_take(struct my_shared *shared)
{
    struct my_connection *conn = NULL;

    clients_lock();
    conn = shared->idle;
    if (conn != NULL)
        shared->idle = conn->next;
    clients_unlock();
    return conn;
}

void my_shared_idle_put(struct my_shared *shared, struct my_connection *conn)
{
    conn->answered_ns = my_connection_now(conn);
    clients_lock();
    conn->next = shared->idle;
    shared->idle = conn;
    clients_unlock();
}

bool my_shared_keep(struct my_shared *shared)
{
    bool may = false;

    clients_lock();
    may = shared->kept < KEPT_MOST;
    shared->kept += may;
    clients_unlock();
    return may;
}

void my_shared_keep_end(struct my_shared *shared)
{
    clients_lock();
    shared->kept--;
    clients_unlock();
}
