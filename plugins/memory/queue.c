/* SPDX-License-Identifier: MIT */
#include "queue.h"

#include "lib/time.h"

#include <stdatomic.h>

static _Atomic uint64_t last_fence; /* of the process, so that it survives every store [UNL-3] */

uint64_t memory_queue_last_fence(void)
{
    return atomic_load(&last_fence);
}

struct memory_entry *memory_queue_find(const struct memory_name *name, const unsigned char *token)
{
    struct memory_entry *holder = memory_entry_find(name->holders, token);

    return holder != NULL ? holder : memory_entry_find(name->queue, token);
}

void memory_queue_remove(struct memory_name *name, struct memory_entry *entry)
{
    memory_entry_remove(entry->fence != 0 ? &name->holders : &name->queue, entry);
}

uint32_t memory_queue_count(const struct memory_name *name, int64_t now_ns)
{
    uint32_t count = 0;

    for (const struct memory_entry *e = name->queue; e != NULL; e = e->next)
        count += e->expires_ns > now_ns;
    for (const struct memory_waiter *w = name->waiters; w != NULL; w = w->next)
        count += !w->enqueued;
    return count;
}

/* The last expiry of the entries from `list` on and before `end` that exclude the mode. */
static int64_t excluded_until(const struct memory_entry *list, const struct memory_entry *end,
                              uint32_t mode)
{
    int64_t until_ns = 0;

    for (; list != end; list = list->next) {
        if (mode == DLOCK_SHARED && list->mode == DLOCK_SHARED)
            continue;
        if (list->expires_ns > until_ns)
            until_ns = list->expires_ns;
    }
    return until_ns;
}

int64_t memory_queue_blocked_until(const struct memory_name *name, uint32_t mode,
                                   const struct memory_entry *entry)
{
    int64_t held_ns = excluded_until(name->holders, NULL, mode);
    int64_t queued_ns = excluded_until(name->queue, entry, mode);

    return held_ns > queued_ns ? held_ns : queued_ns;
}

void memory_queue_grant(struct memory_name *name, int64_t now_ns)
{
    struct memory_entry *head = name->queue;

    while (head != NULL && memory_queue_blocked_until(name, head->mode, head) <= now_ns) {
        name->queue = head->next;
        memory_entry_append(&name->holders, head);
        head->fence = atomic_fetch_add(&last_fence, 1 + MEMORY_FENCE_ROOM) + 1;
        head->since_ns = now_ns;
        head->expires_ns = now_ns + head->grant_ms * DL_NS_PER_MS;
        memory_waiter_wake(name->waiters, head->token);
        head = name->queue;
    }
}

void memory_queue_pass_on(struct memory_store *store, struct memory_name *name, int64_t now_ns)
{
    memory_store_reap(name, now_ns);
    memory_queue_grant(name, now_ns);
    if (name->queue == NULL)
        memory_waiter_wake_unqueued(name->waiters);
    memory_store_tidy(store, name);
}

void memory_queue_describe(struct dlock_grant *grant, const struct memory_name *name,
                           const struct memory_entry *holder, int64_t ttl_ms, int64_t now_ns)
{
    int64_t left_ms = (holder->expires_ns - now_ns) / DL_NS_PER_MS;

    grant->fence = holder->fence;
    grant->fence_room = MEMORY_FENCE_ROOM;
    grant->lease_ms = left_ms < ttl_ms ? left_ms : ttl_ms;
    grant->waiters = memory_queue_count(name, now_ns);
}
