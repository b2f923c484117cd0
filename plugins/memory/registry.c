/* SPDX-License-Identifier: MIT */
#include "registry.h"

#include <search.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct memory_store *stores;
static _Atomic pid_t home; /* the process that has the stores; 0: none yet */

void memory_registry_init(void)
{
    atomic_store(&home, getpid());
}

bool memory_registry_is_child(void)
{
    return atomic_load(&home) != getpid();
}

struct lease_search {
    int64_t now_ns;
    bool found;
};

static void lease_visit(const void *node, VISIT which, void *arg)
{
    const struct memory_name *name = *(struct memory_name *const *)node;
    struct lease_search *search = arg;

    if (which != postorder && which != leaf)
        return;
    for (const struct memory_entry *e = name->holders; e != NULL; e = e->next)
        search->found |= e->expires_ns > search->now_ns;
}

static bool has_leases(struct memory_store *store, const struct dlock_host *host)
{
    struct lease_search search = {0};

    (void)pthread_mutex_lock(&store->mutex);
    search.now_ns = memory_store_now(store, host);
    twalk_r(store->names, lease_visit, &search);
    (void)pthread_mutex_unlock(&store->mutex);
    return search.found;
}

/* A store without sessions stays until its leases have expired. */
static void sweep_locked(const struct dlock_host *host)
{
    struct memory_store **next = &stores;

    while (*next != NULL) {
        struct memory_store *store = *next;

        if (store->refs == 0 && !has_leases(store, host)) {
            *next = store->next;
            memory_store_free(store);
        } else {
            next = &store->next;
        }
    }
}

struct memory_store *memory_registry_ref(const char *id, const struct dlock_host *host)
{
    struct memory_store *store = NULL;

    (void)pthread_mutex_lock(&mutex);
    sweep_locked(host);
    for (store = stores; store != NULL; store = store->next) {
        if (strcmp(store->id, id) == 0)
            break;
    }
    if (store == NULL) {
        store = memory_store_new(id);
        if (store != NULL) {
            store->next = stores;
            stores = store;
        }
    }
    if (store != NULL)
        store->refs++;
    (void)pthread_mutex_unlock(&mutex);
    return store;
}

void memory_registry_unref(struct memory_store *store, const struct dlock_host *host)
{
    (void)pthread_mutex_lock(&mutex);
    store->refs--;
    sweep_locked(host);
    (void)pthread_mutex_unlock(&mutex);
}
