/* SPDX-License-Identifier: MIT */
#include "client/name_state.h"
#include "lib/text.h"
#include "sys/clock.h"

#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool dl_local_queue_open_to(const struct dl_local_queue *queue, enum dlock_mode mode)
{
    const struct dl_local_waiter *last = queue->last;

    return last == NULL || (mode == DLOCK_SHARED && last->mode == DLOCK_SHARED && last->admitted);
}

void dl_local_queue_push(struct dl_local_queue *queue, struct dl_local_waiter *waiter,
                         enum dlock_mode mode)
{
    *waiter = (struct dl_local_waiter){.prev = queue->last,
                                       .mode = mode,
                                       .queued = true,
                                       .admitted = dl_local_queue_open_to(queue, mode)};
    if (queue->last != NULL)
        queue->last->next = waiter;
    else
        queue->first = waiter;
    queue->last = waiter;
}

void dl_local_queue_remove(struct dl_local_queue *queue, struct dl_local_waiter *waiter)
{
    if (!waiter->queued)
        return;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        queue->first = waiter->next;
    if (waiter->next != NULL)
        waiter->next->prev = waiter->prev;
    else
        queue->last = waiter->prev;
    *waiter = (struct dl_local_waiter){0};
}

struct dl_local_waiter *dl_local_queue_admit(struct dl_local_queue *queue)
{
    struct dl_local_waiter *waiter = queue->first;

    while (waiter != NULL && waiter->admitted && waiter->mode == DLOCK_SHARED)
        waiter = waiter->next;
    if (waiter == NULL || waiter->admitted ||
        (waiter != queue->first && waiter->mode != DLOCK_SHARED))
        return NULL;
    waiter->admitted = true;
    return waiter;
}

/* If the store does not know how many others wait, the name counts as contended after this time. */
#define WAITERS_UNKNOWN_NS (180 * DL_NS_PER_MS)

const char *dl_name_state_text(const struct dl_name_state *name, char out[DL_NAME_TEXT])
{
    return dl_printable_escape(out, DL_NAME_TEXT, name->bytes, name->len);
}

static int name_compare(const void *left, const void *right)
{
    const struct dl_name_state *a = left, *b = right;

    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return memcmp(a->bytes, b->bytes, a->len);
}

static struct dl_name_state *name_alloc(const void *bytes, size_t len)
{
    struct dl_name_state *name = calloc(1, offsetof(struct dl_name_state, bytes) + len);

    if (name == NULL)
        return NULL;
    name->contended_since_ns = DL_NEVER;
    name->len = (uint32_t)len;
    memcpy(name->bytes, bytes, len);
    return name;
}

struct dl_name_state *dl_name_state_ref(struct dl_name_states *names, const void *bytes, size_t len)
{
    struct dl_name_state *name = name_alloc(bytes, len);
    struct dl_name_state **there;

    if (name == NULL)
        return NULL;
    there = tsearch(name, &names->root, name_compare);
    if (there == NULL || *there != name)
        free(name);
    if (there == NULL)
        return NULL;
    (*there)->refs++;
    return *there;
}

void dl_name_state_unref(struct dl_name_states *names, struct dl_name_state *name)
{
    if (--name->refs > 0)
        return;
    (void)tdelete(name, &names->root, name_compare);
    free(name);
}

void dl_name_state_note_waiters(struct dl_name_state *name, uint32_t waiters, unsigned own,
                                int64_t now_ns)
{
    if (waiters == UINT32_MAX)
        return;
    if (waiters <= own)
        name->contended_since_ns = DL_NEVER;
    else if (name->contended_since_ns > now_ns)
        name->contended_since_ns = now_ns;
}

void dl_name_state_note_grant(struct dl_name_state *name, uint32_t waiters, unsigned own,
                              int64_t now_ns)
{
    /* Other clients have had the lock since, or could have had it. */
    name->contended_since_ns = waiters == UINT32_MAX ? now_ns + WAITERS_UNKNOWN_NS : DL_NEVER;
    dl_name_state_note_waiters(name, waiters, own, now_ns);
}

bool dl_name_state_held_against(const struct dl_name_state *name, enum dlock_mode mode)
{
    return name->writers > 0 || (mode == DLOCK_EXCLUSIVE && name->readers > 0);
}
