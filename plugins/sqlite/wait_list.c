/* SPDX-License-Identifier: MIT */
#include "wait_list.h"
#include "net/clients.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* `asked` is the count of a bucket up to which its waiters were asked. */
struct sqlite_wait_list {
    struct client client; /* first; its references are sessions and listed attempts */
    uint32_t bell;
    pthread_mutex_t mutex; /* guards the rest */
    bool interrupted;
    const struct sqlite_wake_file *sleeps; /* in this file; NULL: nobody sleeps */
    uint64_t inode;                        /* of the file in which `asked` was read */
    uint32_t asked[SQ_WAKE_BUCKETS];
    struct sqlite_waiter *first[SQ_WAKE_BUCKETS];
};

static struct client *list_make(const struct dlock_host *host, const void *arg)
{
    static _Atomic uint32_t made;
    struct sqlite_wait_list *list = calloc(1, sizeof *list);

    (void)host;
    (void)arg;
    if (list == NULL)
        return NULL;
    (void)pthread_mutex_init(&list->mutex, NULL);
    list->bell = ((uint32_t)getpid() + atomic_fetch_add(&made, 1)) % SQ_WAKE_BELLS;
    return &list->client;
}

static struct clients lists = {.make = list_make};

bool sqlite_wait_list_init(void)
{
    return clients_init(&lists);
}

struct sqlite_wait_list *sqlite_wait_list_find(const struct dlock_host *host)
{
    return (struct sqlite_wait_list *)(void *)clients_find(&lists, host, NULL);
}

void sqlite_wait_list_unref(struct sqlite_wait_list *list)
{
    if (list == NULL || !clients_unref(&lists, &list->client))
        return;
    (void)pthread_mutex_destroy(&list->mutex);
    free(list);
}

/* ---- the list ---- */

static void rouse_locked(struct sqlite_wait_list *list)
{
    if (list->sleeps != NULL)
        sqlite_wake_file_bell_ring(list->sleeps, list->bell);
}

/* Of a waiter that comes into its bucket: others there may have an older count. */
static void asked_lower_locked(struct sqlite_wait_list *list, const struct sqlite_waiter *waiter)
{
    uint32_t bucket = atomic_load(&waiter->bucket);

    if (waiter->inode != list->inode)
        list->inode = 0; /* all buckets are asked */
    if (list->first[bucket] == NULL || (int32_t)(waiter->count - list->asked[bucket]) < 0)
        list->asked[bucket] = waiter->count;
}

void sqlite_wait_list_add(struct sqlite_wait_list *list, struct sqlite_waiter *waiter,
                          uint32_t number)
{
    struct sqlite_waiter **first = &list->first[atomic_load(&waiter->bucket)];

    clients_ref(&list->client);
    (void)pthread_mutex_lock(&list->mutex);
    asked_lower_locked(list, waiter);
    waiter->number = number;
    waiter->list = list;
    waiter->next = *first;
    waiter->at = first;
    if (waiter->next != NULL)
        waiter->next->at = &waiter->next;
    *first = waiter;
    rouse_locked(list); /* the thread may sleep without this bucket */
    (void)pthread_mutex_unlock(&list->mutex);
}

static void unlink_locked(struct sqlite_waiter *waiter)
{
    *waiter->at = waiter->next;
    if (waiter->next != NULL)
        waiter->next->at = waiter->at;
    waiter->at = NULL;
}

void sqlite_wait_list_remove(struct sqlite_waiter *waiter)
{
    struct sqlite_wait_list *list = waiter->list;

    if (list == NULL)
        return;
    (void)pthread_mutex_lock(&list->mutex);
    if (waiter->at != NULL)
        unlink_locked(waiter);
    (void)pthread_mutex_unlock(&list->mutex);
    waiter->list = NULL;
    sqlite_wait_list_unref(list);
}

/* ---- the one thread ---- */

/* Takes numbers of waiters of one bucket; with usable, only of those that were woken. False: there
 * was no room for all. */
static bool bucket_take_locked(struct sqlite_wait_list *list, uint32_t bucket,
                               const struct sqlite_wake_file *usable, uint32_t *numbers,
                               size_t *count, size_t room)
{
    struct sqlite_waiter *waiter = list->first[bucket];

    while (waiter != NULL && *count < room) {
        struct sqlite_waiter *next = waiter->next;

        if (usable == NULL || sqlite_wake_file_is_woken(usable, waiter)) {
            numbers[(*count)++] = waiter->number;
            unlink_locked(waiter);
        }
        waiter = next;
    }
    return waiter == NULL;
}

/* Returns how many numbers were taken. usable: NULL: all waiters ask the store. */
static size_t news_take_locked(struct sqlite_wait_list *list, const struct sqlite_wake_file *usable,
                               uint32_t *numbers, size_t room)
{
    bool same = usable != NULL && list->inode == usable->inode;
    bool whole = true;
    size_t count = 0;

    for (uint32_t i = 0; i < SQ_WAKE_BUCKETS && count < room; i++) {
        uint32_t now = 0;

        if (list->first[i] == NULL)
            continue;
        now = usable != NULL ? sqlite_wake_file_count(usable, i) : 0;
        if (same && now == list->asked[i])
            continue;
        if (bucket_take_locked(list, i, usable, numbers, &count, room))
            list->asked[i] = now;
        else
            whole = false;
    }
    if (usable != NULL && whole && count < room)
        list->inode = usable->inode;
    return count;
}

static uint32_t groups_locked(const struct sqlite_wait_list *list)
{
    uint32_t groups = 0;

    for (uint32_t i = 0; i < SQ_WAKE_BUCKETS; i++)
        if (list->first[i] != NULL)
            groups |= 1u << i % 32;
    return groups;
}

/* One round; INTERNAL: nothing was told, and the thread has slept. */
static enum dlock_status round_locked(struct sqlite_wait_list *list, struct sqlite_wake_file *file,
                                      const struct sqlite_config *config,
                                      const struct dlock_host *host, uint32_t *numbers,
                                      size_t *count, int64_t deadline_ns)
{
    size_t room = *count;
    bool usable = sqlite_wake_file_is_usable(file, config);
    uint32_t groups = groups_locked(list), begun = 0;
    size_t taken = 0;

    if (usable)
        begun = sqlite_wake_file_bell_begin(file, list->bell, groups);
    taken = news_take_locked(list, usable ? file : NULL, numbers, room);
    if (taken > 0) {
        *count = taken;
        return DLOCK_OK;
    }
    if (list->interrupted) {
        list->interrupted = false;
        return DLOCK_CANCELED;
    }
    if (!usable)
        return DLOCK_UNAVAILABLE;
    if (host->now_ns(host->ctx) >= deadline_ns)
        return DLOCK_TIMEOUT;
    list->sleeps = file;
    (void)pthread_mutex_unlock(&list->mutex);
    /* A bell is woken for all groups at an interrupt: the sleep has to have one. */
    sqlite_wake_file_bell_sleep(file, list->bell, groups | 1u, begun, host, deadline_ns);
    (void)pthread_mutex_lock(&list->mutex);
    list->sleeps = NULL;
    return DLOCK_INTERNAL;
}

enum dlock_status sqlite_wait_list_await(struct sqlite_wait_list *list,
                                         struct sqlite_wake_file *file,
                                         const struct sqlite_config *config,
                                         const struct dlock_host *host, uint32_t *numbers,
                                         size_t *count, int64_t deadline_ns)
{
    enum dlock_status status = DLOCK_INTERNAL;

    (void)pthread_mutex_lock(&list->mutex);
    while (status == DLOCK_INTERNAL)
        status = round_locked(list, file, config, host, numbers, count, deadline_ns);
    (void)pthread_mutex_unlock(&list->mutex);
    return status;
}

void sqlite_wait_list_interrupt(struct sqlite_wait_list *list)
{
    (void)pthread_mutex_lock(&list->mutex);
    list->interrupted = true;
    rouse_locked(list);
    (void)pthread_mutex_unlock(&list->mutex);
}
