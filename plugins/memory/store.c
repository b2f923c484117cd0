/* SPDX-License-Identifier: MIT */
/* Which stores there are in this process, and which names are in use in one. */
#include "memory.h"

#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct memory_store *registry;
static _Atomic pid_t home; /* the process that has the stores; 0: none yet */

void memory_store_init(void)
{
    atomic_store(&home, getpid());
}

int memory_store_forked(void)
{
    return atomic_load(&home) != getpid();
}

int64_t memory_store_now(const struct memory_store *store, const struct dlock_host *host)
{
    if (store->clock != NULL)
        return store->clock->now_ns(store->clock->ctx);
    return host->now_ns(host->ctx);
}

static struct memory_store *store_new(const char *id)
{
    struct memory_store *store = calloc(1, sizeof *store);

    if (store == NULL)
        return NULL;
    store->id = strdup(id);
    if (store->id == NULL || pthread_mutex_init(&store->mutex, NULL) != 0) {
        free(store->id);
        free(store);
        return NULL;
    }
    return store;
}

static void name_free(void *arg)
{
    struct memory_name *name = arg;

    memory_name_reap(name, INT64_MAX);
    free(name);
}

static void store_free(struct memory_store *store)
{
    tdestroy(store->names, name_free);
    (void)pthread_mutex_destroy(&store->mutex);
    free(store->id);
    free(store);
}

struct live_search {
    int64_t now_ns;
    int found;
};

static void live_visit(const void *node, VISIT which, void *arg)
{
    const struct memory_name *name = *(struct memory_name *const *)node;
    struct live_search *search = arg;

    if ((which == postorder || which == leaf) && memory_name_held(name, search->now_ns))
        search->found = 1;
}

static int store_has_leases(struct memory_store *store, const struct dlock_host *host)
{
    struct live_search search = {0};

    (void)pthread_mutex_lock(&store->mutex);
    search.now_ns = memory_store_now(store, host);
    twalk_r(store->names, live_visit, &search);
    (void)pthread_mutex_unlock(&store->mutex);
    return search.found;
}

/* A store without sessions stays until its leases have run out. */
static void registry_sweep(const struct dlock_host *host)
{
    struct memory_store **link = &registry;

    while (*link != NULL) {
        struct memory_store *store = *link;

        if (store->sessions == 0 && !store_has_leases(store, host)) {
            *link = store->next;
            store_free(store);
        } else {
            link = &store->next;
        }
    }
}

struct memory_store *memory_store_hold(const char *id, const struct dlock_host *host)
{
    struct memory_store *store = NULL;

    (void)pthread_mutex_lock(&registry_mutex);
    registry_sweep(host);
    for (store = registry; store != NULL; store = store->next) {
        if (strcmp(store->id, id) == 0)
            break;
    }
    if (store == NULL) {
        store = store_new(id);
        if (store != NULL) {
            store->next = registry;
            registry = store;
        }
    }
    if (store != NULL)
        store->sessions++;
    (void)pthread_mutex_unlock(&registry_mutex);
    return store;
}

void memory_store_rele(struct memory_store *store, const struct dlock_host *host)
{
    (void)pthread_mutex_lock(&registry_mutex);
    store->sessions--;
    registry_sweep(host);
    (void)pthread_mutex_unlock(&registry_mutex);
}

static int key_compare(const void *left, const void *right)
{
    const struct memory_key *a = left, *b = right;
    size_t common = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->bytes, b->bytes, common);

    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

struct memory_name *memory_name_find(struct memory_store *store, const unsigned char *bytes,
                                     uint32_t len)
{
    struct memory_key key = {bytes, len};
    void *node = tfind(&key, &store->names, key_compare);

    return node == NULL ? NULL : *(struct memory_name **)node;
}

struct memory_name *memory_name_get(struct memory_store *store, const unsigned char *bytes,
                                    uint32_t len)
{
    struct memory_name *name = memory_name_find(store, bytes, len);

    if (name != NULL)
        return name;
    name = calloc(1, sizeof *name + len);
    if (name == NULL)
        return NULL;
    memcpy(name->bytes, bytes, len);
    name->key = (struct memory_key){name->bytes, len};
    if (tsearch(name, &store->names, key_compare) == NULL) {
        free(name);
        return NULL;
    }
    return name;
}

void memory_name_tidy(struct memory_store *store, struct memory_name *name)
{
    if (name->holders != NULL || name->queue != NULL || name->sleepers != NULL)
        return;
    (void)tdelete(name, &store->names, key_compare);
    free(name);
}
