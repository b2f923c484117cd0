/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include "connect.h"

#include <stdlib.h>

/* Connections that were idle for so long are closed, when a session of the client is closed: core
 * does the same with idle sessions. */
#define IDLE_NS (60 * DL_NS_PER_S)

/* The queues that the holders of a client may keep. */
#define KEPT_MOST 16

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static struct my_shared *all;
static struct my_shared *inherited; /* in a child: of no use any more */

static void lock(void)
{
    (void)pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

/* A child may open a client of its own, even at the address of an inherited one. */
static void unlock_after_fork(void)
{
    while (all != NULL) {
        struct my_shared *shared = all;

        my_connect_after_fork(&shared->control.conn);
        for (struct my_connection *conn = shared->idle; conn != NULL; conn = conn->next)
            my_connect_after_fork(conn);
        all = shared->next;
        shared->next = inherited;
        inherited = shared;
    }
    unlock();
}

int my_shared_init(void)
{
    return pthread_atfork(lock, unlock, unlock_after_fork);
}

static struct my_shared *new_locked(const struct my_config *config, const struct dlock_host *host)
{
    struct my_shared *shared = calloc(1, sizeof *shared);

    if (shared == NULL)
        return NULL;
    shared->host = host;
    shared->config = *config;
    my_control_init(&shared->control, &shared->config, host, &shared->tables);
    shared->next = all;
    all = shared;
    return shared;
}

struct my_shared *my_shared_find(const struct my_config *config, const struct dlock_host *host)
{
    struct my_shared *shared = NULL;

    lock();
    for (shared = all; shared != NULL && shared->host != host; shared = shared->next)
        ;
    if (shared == NULL)
        shared = new_locked(config, host);
    if (shared != NULL)
        shared->refs++;
    unlock();
    return shared;
}

void my_shared_ref(struct my_shared *shared)
{
    lock();
    shared->refs++;
    unlock();
}

/* Unlinks the idle connections that are to be closed. */
static struct my_connection *idle_unlink_locked(struct my_shared *shared)
{
    const int64_t now_ns = shared->host->now_ns(shared->host->ctx);
    struct my_connection **at = &shared->idle, *old = NULL;

    while (shared->refs > 0 && *at != NULL && now_ns - (*at)->answered_ns < IDLE_NS)
        at = &(*at)->next;
    old = *at;
    *at = NULL;
    return old;
}

void my_shared_unref(struct my_shared *shared)
{
    struct my_shared **at = &all;
    struct my_connection *old = NULL;
    bool last = false;

    lock();
    last = --shared->refs == 0;
    old = idle_unlink_locked(shared);
    while (last && *at != shared)
        at = &(*at)->next;
    if (last)
        *at = shared->next;
    unlock();
    while (old != NULL) {
        struct my_connection *conn = old;

        old = conn->next;
        my_connect_close(conn);
        free(conn);
    }
    if (!last)
        return;
    my_control_fini(&shared->control);
    free(shared);
}

struct my_connection *my_shared_idle_take(struct my_shared *shared)
{
    struct my_connection *conn = NULL;

    lock();
    conn = shared->idle;
    if (conn != NULL)
        shared->idle = conn->next;
    unlock();
    return conn;
}

void my_shared_idle_put(struct my_shared *shared, struct my_connection *conn)
{
    conn->answered_ns = my_connection_now(conn);
    lock();
    conn->next = shared->idle;
    shared->idle = conn;
    unlock();
}

bool my_shared_keep(struct my_shared *shared)
{
    bool may = false;

    lock();
    may = shared->kept < KEPT_MOST;
    shared->kept += may;
    unlock();
    return may;
}

void my_shared_keep_end(struct my_shared *shared)
{
    lock();
    shared->kept--;
    unlock();
}
