/* SPDX-License-Identifier: MIT */
#include "store.h"
#include "lib/time.h"

#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct memory_entry *memory_entry_new(const struct dlock_request *req)
{
    size_t label_len = req->label == NULL ? 0 : strnlen(req->label, MEMORY_LABEL_MAX);
    uint32_t data_len = req->data_len;
    struct memory_entry *entry = NULL;

    if (data_len > DLOCK_DATA_MAX)
        data_len = 0;
    entry = calloc(1, sizeof *entry + label_len + 1 + data_len);
    if (entry == NULL)
        return NULL;
    memcpy(entry->token, req->token, sizeof entry->token);
    entry->mode = req->mode;
    entry->limit = req->limit;
    if (label_len > 0)
        memcpy(entry->label, req->label, label_len);
    if (data_len > 0) {
        entry->data = (unsigned char *)entry->label + label_len + 1;
        entry->data_len = data_len;
        memcpy(entry->data, req->data, data_len);
    }
    return entry;
}

void memory_entry_append(struct memory_entry **list, struct memory_entry *entry)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = entry;
    entry->next = NULL;
}

struct memory_entry *memory_entry_find(struct memory_entry *list, const unsigned char *token)
{
    while (list != NULL && memcmp(list->token, token, DLOCK_TOKEN_SIZE) != 0)
        list = list->next;
    return list;
}

void memory_entry_remove(struct memory_entry **list, struct memory_entry *entry)
{
    while (*list != entry)
        list = &(*list)->next;
    *list = entry->next;
    free(entry);
}

/* Removes the entries that have expired. */
static void entries_reap(struct memory_entry **list, int64_t now_ns)
{
    while (*list != NULL) {
        struct memory_entry *entry = *list;

        if (entry->expires_ns <= now_ns)
            memory_entry_remove(list, entry);
        else
            list = &entry->next;
    }
}

void memory_entry_extend(struct memory_entry *entry, int64_t lease_ms, int64_t now_ns)
{
    int64_t expires_ns = now_ns + lease_ms * DL_NS_PER_MS;

    if (expires_ns > entry->expires_ns)
        entry->expires_ns = expires_ns;
}

int64_t memory_entry_left_ms(const struct memory_entry *entry, int64_t now_ns)
{
    return (entry->expires_ns - now_ns + DL_NS_PER_MS - 1) / DL_NS_PER_MS;
}

static void unlink_from(struct memory_waiter **list, struct memory_waiter *waiter)
{
    while (*list != waiter)
        list = &(*list)->next;
    *list = waiter->next;
}

bool memory_waiter_sleep(struct memory_waiter *waiter, struct memory_waiter **list,
                         const unsigned char *token, pthread_mutex_t *mutex, int64_t ns)
{
    if (!waiter->has_wake && dl_deadline_cond_init(&waiter->wake) != 0)
        return false;
    waiter->has_wake = true;
    memcpy(waiter->token, token, sizeof waiter->token);
    waiter->next = *list;
    *list = waiter;
    waiter->sleeping = true;
    dl_deadline_cond_wait(&waiter->wake, mutex, ns);
    waiter->sleeping = false;
    unlink_from(list, waiter);
    return true;
}

void memory_waiter_list(struct memory_waiter *waiter, struct memory_waiter **list,
                        const struct dlock_request *req, struct memory_pending *pending)
{
    if (waiter->listed)
        return;
    waiter->listed = true;
    waiter->number = req->waiter;
    waiter->pending = pending;
    memcpy(waiter->token, req->token, sizeof waiter->token);
    waiter->next = *list;
    *list = waiter;
}

/* The waiter has no pending event any more. */
static void pending_clear(struct memory_waiter *waiter)
{
    struct memory_waiter **link;

    if (!waiter->is_pending)
        return;
    link = &waiter->pending->first;
    while (*link != waiter)
        link = &(*link)->next_pending;
    *link = waiter->next_pending;
    waiter->is_pending = false;
}

void memory_waiter_unlist(struct memory_waiter *waiter, struct memory_waiter **list)
{
    pending_clear(waiter);
    if (waiter->listed)
        unlink_from(list, waiter);
    waiter->listed = false;
}

size_t memory_waiter_pending_take(struct memory_pending *pending, uint32_t *numbers, size_t room)
{
    size_t count = 0;

    while (count < room && pending->first != NULL) {
        numbers[count++] = pending->first->number;
        pending->first->is_pending = false;
        pending->first = pending->first->next_pending;
    }
    return count;
}

static void wake(struct memory_waiter *waiter)
{
    struct memory_pending *pending = waiter->pending;

    if (!waiter->listed) {
        (void)pthread_cond_signal(&waiter->wake);
    } else if (!waiter->is_pending) {
        waiter->is_pending = true;
        waiter->next_pending = pending->first;
        pending->first = waiter;
        (void)pthread_cond_signal(&pending->wake);
    }
}

void memory_waiter_wake(struct memory_waiter *list, const unsigned char *token)
{
    while (list != NULL && memcmp(list->token, token, DLOCK_TOKEN_SIZE) != 0)
        list = list->next;
    if (list != NULL)
        wake(list);
}

void memory_waiter_wake_unqueued(struct memory_waiter *list)
{
    for (; list != NULL; list = list->next) {
        if (!list->enqueued)
            wake(list);
    }
}

void memory_waiter_interrupt(struct memory_waiter *waiter, uint64_t last_fence)
{
    if (!waiter->interrupted)
        waiter->interrupt_fence = last_fence;
    waiter->interrupted = true;
    if (waiter->sleeping)
        (void)pthread_cond_signal(&waiter->wake);
}

void memory_waiter_fini(struct memory_waiter *waiter)
{
    if (waiter->has_wake)
        (void)pthread_cond_destroy(&waiter->wake);
    waiter->has_wake = false;
}

/* NULL: no memory. */
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

    memory_store_reap(name, INT64_MAX);
    free(name);
}

static void store_free(struct memory_store *store)
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
    entries_reap(&name->holders, now_ns);
    entries_reap(&name->queue, now_ns);
}

void memory_store_tidy(struct memory_store *store, struct memory_name *name)
{
    if (name->holders != NULL || name->queue != NULL || name->waiters != NULL)
        return;
    (void)tdelete(name, &store->names, key_compare);
    free(name);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct memory_store *stores;
static _Atomic pid_t home; /* the process that has the stores; 0: none yet */

void memory_store_init(void)
{
    atomic_store(&home, getpid());
}

bool memory_store_is_child(void)
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
            store_free(store);
        } else {
            next = &store->next;
        }
    }
}

struct memory_store *memory_store_ref(const char *id, const struct dlock_host *host)
{
    struct memory_store *store = NULL;

    (void)pthread_mutex_lock(&mutex);
    sweep_locked(host);
    for (store = stores; store != NULL; store = store->next) {
        if (strcmp(store->id, id) == 0)
            break;
    }
    if (store == NULL) {
        store = store_new(id);
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

void memory_store_unref(struct memory_store *store, const struct dlock_host *host)
{
    (void)pthread_mutex_lock(&mutex);
    store->refs--;
    sweep_locked(host);
    (void)pthread_mutex_unlock(&mutex);
}
