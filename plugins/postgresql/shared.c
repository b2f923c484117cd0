/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static struct pg_shared *all;
static struct pg_shared *inherited; /* in a child: of no use any more */

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
        struct pg_shared *shared = all;
        struct pg_listener *listener = atomic_load(&shared->listener);

        if (listener != NULL)
            shared->listener_after_fork(listener);
        all = shared->next;
        shared->next = inherited;
        inherited = shared;
    }
    unlock();
}

int pg_shared_init(void)
{
    return pthread_atfork(lock, unlock, unlock_after_fork);
}

static struct pg_shared *new_locked(const struct pg_config *config, const struct dlock_host *host)
{
    struct pg_shared *shared = calloc(1, sizeof *shared);

    if (shared == NULL)
        return NULL;
    shared->host = host;
    shared->config = *config;
    shared->next = all;
    all = shared;
    return shared;
}

struct pg_shared *pg_shared_find(const struct pg_config *config, const struct dlock_host *host)
{
    struct pg_shared *shared = NULL;

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

void pg_shared_ref(struct pg_shared *shared)
{
    lock();
    shared->refs++;
    unlock();
}

void pg_shared_unref(struct pg_shared *shared)
{
    struct pg_shared **at = &all;
    struct pg_listener *listener = NULL;
    bool last = false;

    lock();
    last = --shared->refs == 0;
    while (last && *at != shared)
        at = &(*at)->next;
    if (last)
        *at = shared->next;
    unlock();
    if (!last)
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
