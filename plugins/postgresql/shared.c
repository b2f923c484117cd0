/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include <stdlib.h>

static struct pg_shared *shared_of(struct client *client)
{
    return (struct pg_shared *)(void *)client;
}

static struct client *shared_make(const struct dlock_host *host, const void *config)
{
    struct pg_shared *shared = calloc(1, sizeof *shared);

    (void)host;
    if (shared == NULL)
        return NULL;
    shared->config = *(const struct pg_config *)config;
    return &shared->client;
}

static void shared_after_fork(struct client *client)
{
    struct pg_shared *shared = shared_of(client);
    struct pg_listener *listener = atomic_load(&shared->listener);

    if (listener != NULL)
        shared->listener_after_fork(listener);
}

static struct clients clients = {.make = shared_make, .after_fork = shared_after_fork};

bool pg_shared_init(void)
{
    return clients_init(&clients);
}

struct pg_shared *pg_shared_find(const struct pg_config *config, const struct dlock_host *host)
{
    return shared_of(clients_find(&clients, host, config));
}

void pg_shared_ref(struct pg_shared *shared)
{
    clients_ref(&shared->client);
}

void pg_shared_unref(struct pg_shared *shared)
{
    struct pg_listener *listener = NULL;

    if (!clients_unref(&clients, &shared->client))
        return;
    listener = atomic_load(&shared->listener);
    if (listener != NULL)
        shared->listener_free(listener);
    free(atomic_load(&shared->texts));
    free(shared);
}

bool pg_shared_is_checked(const struct pg_shared *shared, int64_t now_ns)
{
    const int64_t checked_ns = atomic_load(&shared->checked_ns);

    return checked_ns != 0 && now_ns - checked_ns < PG_SHARED_CHECK_NS;
}
