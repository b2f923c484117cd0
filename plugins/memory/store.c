/* SPDX-License-Identifier: MIT */
#include "store.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct memory_store *memory_store_new(const char *id)
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

    memory_store_reap(name, INT64_MAX);
    free(name);
}

void memory_store_free(struct memory_store *store)
{
    tdestroy(store->names, name_free);
    (void)pthread_mutex_destroy(&store->mutex);
    free(store->id);
    free(store);
}

int64_t memory_store_now(const struct memory_store *store, const struct dlock_host *host)
{
    (void)store;
    return host->now_ns(host->ctx);
}

static int key_compare(const void *left, const void *right)
{
    const struct memory_key *a = left, *b = right;
    size_t common = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->bytes, b->bytes, common);

    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

struct memory_name *memory_store_find(struct memory_store *store, const unsigned char *bytes,
                                      uint32_t len)
{
    struct memory_key key = {bytes, len};
    void *node = tfind(&key, &store->names, key_compare);

    return node == NULL ? NULL : *(struct memory_name **)node;
}

struct memory_name *memory_store_get(struct memory_store *store, const unsigned char *bytes,
                                     uint32_t len)
{
    struct memory_name *name = memory_store_find(store, bytes, len);

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

void memory_store_reap(struct memory_name *name, int64_t now_ns)
{
    memory_entry_reap(&name->holders, now_ns);
    memory_entry_reap(&name->queue, now_ns);
}

void memory_store_tidy(struct memory_store *store, struct memory_name *name)
{
    if (name->holders != NULL || name->queue != NULL || name->waiters != NULL)
        return;
    (void)tdelete(name, &store->names, key_compare);
    free(name);
}
