/* SPDX-License-Identifier: MIT */
/* Leases are copied first and reported afterwards: a callback may take its time, and may use this
 * store through another client. */
#include "lib/text.h"
#include "lib/time.h"
#include "queue.h"
#include "session.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* `info` gets its pointers to the texts below when it is reported: an array that grows may move. */
struct found {
    struct dlock_holder info;
    unsigned char name[MEMORY_NAME_MAX];
    char owner[2 * DLOCK_TOKEN_SIZE + 1];
    char label[MEMORY_LABEL_MAX + 1];
    unsigned char data[DLOCK_DATA_MAX];
};

struct snapshot {
    struct memory_key prefix;
    int64_t now_ns;
    struct found *found;
    size_t count, room;
    bool out_of_memory;
};

static struct found *snapshot_room(struct snapshot *shot)
{
    if (shot->count == shot->room) {
        size_t room = shot->room == 0 ? 1 : 2 * shot->room;
        struct found *grown = reallocarray(shot->found, room, sizeof *grown);

        if (grown == NULL) {
            shot->out_of_memory = true;
            return NULL;
        }
        shot->found = grown;
        shot->room = room;
    }
    return &shot->found[shot->count++];
}

static void snapshot_add(struct snapshot *shot, const struct memory_name *name)
{
    uint32_t waiters = memory_queue_count(name, shot->now_ns);

    for (const struct memory_entry *c = name->holders; c != NULL; c = c->next) {
        struct found *found = c->expires_ns > shot->now_ns ? snapshot_room(shot) : NULL;

        if (found == NULL)
            continue;
        found->info = (struct dlock_holder){
            .struct_size = sizeof(struct dlock_holder),
            .name_len = name->key.len,
            .mode = c->mode,
            .waiters = waiters,
            .fence = c->fence,
            .fence_last = c->fence + MEMORY_FENCE_ROOM,
            .remaining_ms = memory_entry_left_ms(c, shot->now_ns),
            .held_ms = (shot->now_ns - c->since_ns) / DL_NS_PER_MS,
            .limit = c->limit > 1 ? c->limit : 0,
            .permit = c->permit,
            .kept = c->kept,
            .data_len = c->data_len,
        };
        memcpy(found->name, name->bytes, name->key.len);
        if (c->data_len > 0)
            memcpy(found->data, c->data, c->data_len);
        if (c->kept)
            found->owner[0] = '\0';
        else
            dl_hex_encode(found->owner, c->token, DLOCK_TOKEN_SIZE);
        (void)snprintf(found->label, sizeof found->label, "%s", c->label);
    }
}

static void snapshot_visit(const void *node, VISIT which, void *arg)
{
    const struct memory_name *name = *(struct memory_name *const *)node;
    struct snapshot *shot = arg;

    if (which != postorder && which != leaf)
        return;
    if (name->key.len < shot->prefix.len)
        return;
    if (shot->prefix.len == 0 || memcmp(name->bytes, shot->prefix.bytes, shot->prefix.len) == 0)
        snapshot_add(shot, name);
}

static bool found_report(struct found *found, dlock_holder_fn *fn, void *arg)
{
    found->info.name = found->name;
    found->info.owner = found->owner;
    found->info.label = found->label;
    found->info.data = found->info.data_len > 0 ? found->data : NULL;
    return fn(arg, &found->info);
}

static enum dlock_status snapshot_report(struct snapshot *shot, dlock_holder_fn *fn, void *arg,
                                         struct dlock_error *err)
{
    bool stop = false;

    for (size_t i = 0; i < shot->count && !stop; i++)
        stop = found_report(&shot->found[i], fn, arg);
    free(shot->found);
    if (shot->out_of_memory)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_NOMEM, 0, "no memory for the whole list");
    return DLOCK_OK;
}

enum dlock_status memory_inspect_name(void *self, const unsigned char *bytes, uint32_t len,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    struct memory_session *session = self;
    struct memory_store *store = session->store;
    struct snapshot shot = {0};
    const struct memory_name *name = NULL;

    (void)deadline_ns;
    (void)pthread_mutex_lock(&store->mutex);
    shot.now_ns = memory_store_now(store, session->host);
    name = memory_store_find(store, bytes, len);
    if (name != NULL)
        snapshot_add(&shot, name);
    (void)pthread_mutex_unlock(&store->mutex);
    return snapshot_report(&shot, fn, arg, err);
}

enum dlock_status memory_inspect_prefix(void *self, const unsigned char *prefix,
                                        uint32_t prefix_len, int64_t deadline_ns,
                                        dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    struct memory_session *session = self;
    struct memory_store *store = session->store;
    struct snapshot shot = {.prefix = {prefix, prefix_len}};

    (void)deadline_ns;
    (void)pthread_mutex_lock(&store->mutex);
    shot.now_ns = memory_store_now(store, session->host);
    twalk_r(store->names, snapshot_visit, &shot);
    (void)pthread_mutex_unlock(&store->mutex);
    return snapshot_report(&shot, fn, arg, err);
}

/* A queue entry and its texts as a holder's, with its age in held_ms. */
static void waiter_add(struct snapshot *shot, const struct memory_entry *entry)
{
    struct found *found = entry->expires_ns > shot->now_ns ? snapshot_room(shot) : NULL;

    if (found == NULL)
        return;
    found->info = (struct dlock_holder){
        .mode = entry->mode,
        .held_ms = (shot->now_ns - entry->since_ns) / DL_NS_PER_MS,
    };
    dl_hex_encode(found->owner, entry->token, DLOCK_TOKEN_SIZE);
    (void)snprintf(found->label, sizeof found->label, "%s", entry->label);
}

static bool waiter_report(const struct found *found, uint32_t position, dlock_waiter_fn *fn,
                          void *arg)
{
    struct dlock_waiter waiter = {
        .struct_size = sizeof waiter,
        .mode = found->info.mode,
        .position = position,
        .waited_ms = found->info.held_ms,
        .owner = found->owner,
        .label = found->label,
    };

    return fn(arg, &waiter);
}

enum dlock_status memory_inspect_waiters(void *self, const unsigned char *bytes, uint32_t len,
                                         int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                         struct dlock_error *err)
{
    struct memory_session *session = self;
    struct memory_store *store = session->store;
    struct snapshot shot = {0};
    const struct memory_name *name = NULL;
    bool stop = false;

    (void)deadline_ns;
    (void)pthread_mutex_lock(&store->mutex);
    shot.now_ns = memory_store_now(store, session->host);
    name = memory_store_find(store, bytes, len);
    for (const struct memory_entry *e = name != NULL ? name->queue : NULL; e != NULL; e = e->next)
        waiter_add(&shot, e);
    (void)pthread_mutex_unlock(&store->mutex);
    for (uint32_t i = 0; i < shot.count && !stop; i++)
        stop = waiter_report(&shot.found[i], i, fn, arg);
    shot.count = 0;
    return snapshot_report(&shot, NULL, NULL, err);
}
