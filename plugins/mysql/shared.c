/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include "connect.h"
#include "lib/time.h"
#include "open.h"

#include <stdlib.h>

/* ---- control connections ---- */

/* Time for the exchange of a caller whose deadline is near: a connection that is cut for this
 * deadline has to be made again for the next caller. */
#define LEAST_NS (60 * DL_NS_PER_MS)

static void control_init(struct my_control *control, const struct my_config *config,
                         const struct dlock_host *host, struct my_tables *tables)
{
    (void)pthread_mutex_init(&control->mutex, NULL);
    (void)dl_deadline_cond_init(&control->freed);
    control->config = config;
    control->host = host;
    for (size_t i = 0; i < MY_CONTROLS; i++)
        control->all[i].conn =
            (struct my_connection){.config = config, .host = host, .tables = tables};
}

static void control_fini(struct my_control *control)
{
    for (size_t i = 0; i < MY_CONTROLS; i++)
        my_connect_close(&control->all[i].conn);
    (void)pthread_cond_destroy(&control->freed);
    (void)pthread_mutex_destroy(&control->mutex);
}

static void control_after_fork(struct my_control *control)
{
    for (size_t i = 0; i < MY_CONTROLS; i++)
        my_connect_after_fork(&control->all[i].conn);
}

static int64_t left_ns(const struct my_control *control, int64_t deadline_ns)
{
    return deadline_ns - control->host->now_ns(control->host->ctx);
}

#define ANY INT64_MAX

/* One that is connected, and else, if any will do, one that is not. *busy: others have some. */
static struct my_control_one *find_locked(struct my_control *control, int64_t opened_ns, bool *busy)
{
    struct my_control_one *unused = NULL;

    *busy = false;
    for (size_t i = 0; i < MY_CONTROLS; i++) {
        struct my_control_one *one = &control->all[i];

        *busy |= one->busy;
        if (!one->busy && one->conn.mysql != NULL && one->conn.opened_ns <= opened_ns)
            return one;
        if (!one->busy && one->conn.mysql == NULL && unused == NULL)
            unused = one;
    }
    return opened_ns == ANY ? unused : NULL;
}

static struct my_control_one *take(struct my_control *control, int64_t opened_ns,
                                   int64_t deadline_ns)
{
    struct my_control_one *one = NULL;
    bool busy = false;

    (void)pthread_mutex_lock(&control->mutex);
    one = find_locked(control, opened_ns, &busy);
    while (one == NULL && busy && left_ns(control, deadline_ns) > 0) {
        dl_deadline_cond_wait(&control->freed, &control->mutex, left_ns(control, deadline_ns));
        one = find_locked(control, opened_ns, &busy);
    }
    if (one != NULL)
        one->busy = true;
    (void)pthread_mutex_unlock(&control->mutex);
    return one;
}

enum dlock_status my_control_begin(struct my_control *control, int64_t deadline_ns,
                                   struct my_connection **conn, struct dlock_error *err)
{
    const int64_t short_ns = LEAST_NS - left_ns(control, deadline_ns);
    const int64_t until_ns = deadline_ns + (short_ns > 0 ? short_ns : 0);
    struct my_control_one *one = take(control, ANY, until_ns);
    enum dlock_status status = DLOCK_INTERNAL;

    if (one == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%s: the other connections are busy", control->config->endpoint);
    *conn = &one->conn;
    one->conn.answered_ns = 0;
    if (one->conn.mysql != NULL)
        status = my_connection_enter(&one->conn, until_ns, err);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    my_connect_close(&one->conn);
    status = my_open(&one->conn, until_ns, err);
    one->conn.dead |= status != DLOCK_OK;
    if (status != DLOCK_OK)
        my_control_end(control, &one->conn);
    return status;
}

struct my_connection *my_control_begin_old(struct my_control *control, int64_t opened_ns,
                                           int64_t deadline_ns)
{
    struct my_control_one *one = take(control, opened_ns, deadline_ns);
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (one == NULL)
        return NULL;
    one->conn.answered_ns = 0;
    if (my_connection_enter(&one->conn, deadline_ns, &ignored) == DLOCK_OK)
        return &one->conn;
    my_control_end(control, &one->conn);
    return NULL;
}

void my_control_end(struct my_control *control, struct my_connection *conn)
{
    struct my_control_one *one = (struct my_control_one *)(void *)conn; /* its first member */

    if (conn->dead)
        my_connect_close(conn);
    (void)pthread_mutex_lock(&control->mutex);
    one->busy = false;
    (void)pthread_cond_broadcast(&control->freed);
    (void)pthread_mutex_unlock(&control->mutex);
}

/* ---- what all sessions of a client share ---- */

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
    control_init(&shared->control, &shared->config, host, &shared->tables);
    return &shared->client;
}

static void shared_after_fork(struct client *client)
{
    struct my_shared *shared = shared_of(client);

    control_after_fork(&shared->control);
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
    my_connect_end(shared->client.host);
    control_fini(&shared->control);
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
