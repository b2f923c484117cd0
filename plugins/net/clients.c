/* SPDX-License-Identifier: MIT */
#include "net/clients.h"

#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Written in slot init: core holds a mutex there, which a fork takes after ours. */
static struct clients *lists; /* one for each plugin that is linked with this file */
static bool has_fork_handlers;

void clients_lock(void)
{
    (void)pthread_mutex_lock(&mutex);
}

void clients_unlock(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

/* The list keeps what the child cannot use: a checker for leaks sees where it is. */
static void inherit_after_fork(struct clients *clients)
{
    while (clients->first != NULL) {
        struct client *client = clients->first;

        if (clients->after_fork != NULL)
            clients->after_fork(client);
        clients->first = client->next;
        client->next = clients->inherited;
        clients->inherited = client;
    }
}

static void unlock_after_fork(void)
{
    for (struct clients *clients = lists; clients != NULL; clients = clients->next)
        inherit_after_fork(clients);
    clients_unlock();
}

static bool is_known(const struct clients *clients)
{
    const struct clients *at = lists;

    while (at != NULL && at != clients)
        at = at->next;
    return at != NULL;
}

bool clients_init(struct clients *clients)
{
    if (!has_fork_handlers)
        has_fork_handlers = pthread_atfork(clients_lock, clients_unlock, unlock_after_fork) == 0;
    if (has_fork_handlers && !is_known(clients)) {
        clients->next = lists;
        lists = clients;
    }
    return has_fork_handlers;
}

static struct client *make_locked(struct clients *clients, const struct dlock_host *host,
                                  const void *arg)
{
    struct client *client = clients->make(host, arg);

    if (client == NULL)
        return NULL;
    client->host = host;
    client->next = clients->first;
    clients->first = client;
    return client;
}

struct client *clients_find(struct clients *clients, const struct dlock_host *host, const void *arg)
{
    struct client *client = NULL;

    clients_lock();
    client = clients->first;
    while (client != NULL && client->host != host)
        client = client->next;
    if (client == NULL)
        client = make_locked(clients, host, arg);
    if (client != NULL)
        client->refs++;
    clients_unlock();
    return client;
}

void clients_ref(struct client *client)
{
    clients_lock();
    client->refs++;
    clients_unlock();
}

bool clients_unref(struct clients *clients, struct client *client)
{
    struct client **at = &clients->first;
    bool last = false;

    clients_lock();
    last = --client->refs == 0;
    while (last && *at != client)
        at = &(*at)->next;
    if (last)
        *at = client->next;
    clients_unlock();
    return last;
}
