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

/* How many of the entries from `list` on and before `end` last longer than until_ns. */
static uint32_t longer_than(const struct memory_entry *list, const struct memory_entry *end,
                            int64_t until_ns)
{
    uint32_t count = 0;

    for (; list != end; list = list->next)
        count += list->expires_ns > until_ns;
    return count;
}

/* The first moment at which fewer than `limit` of the holders and of the entries before this one
 * are left. Those before it take a permit or expire. */
static int64_t permit_free_at(const struct memory_name *name, uint32_t limit,
                              const struct memory_entry *entry)
{
    const struct memory_entry *lists[] = {name->holders, name->queue};
    const struct memory_entry *ends[] = {NULL, entry};
    int64_t until_ns = INT64_MAX;

    if (longer_than(lists[0], NULL, 0) + longer_than(lists[1], entry, 0) < limit)
        return 0;
    for (size_t i = 0; i < 2; i++) {
        for (const struct memory_entry *e = lists[i]; e != ends[i]; e = e->next) {
            if (e->expires_ns < until_ns && longer_than(lists[0], NULL, e->expires_ns) +
                                                    longer_than(lists[1], entry, e->expires_ns) <
                                                limit)
                until_ns = e->expires_ns;
        }
    }
    return until_ns;
}

static bool has_permit(const struct memory_entry *holders, uint32_t permit)
{
    while (holders != NULL && holders->permit != permit)
        holders = holders->next;
    return holders != NULL;
}

static uint32_t lowest_permit(const struct memory_name *name)
{
    uint32_t permit = 0;

    while (has_permit(name->holders, permit))
        permit++;
    return permit;
}

uint32_t memory_queue_other_limit(const struct memory_name *name, uint32_t limit)
{
    const struct memory_entry *first = name->holders != NULL ? name->holders : name->queue;

    return first == NULL || first->limit == limit ? 0 : first->limit;
}

int64_t memory_queue_blocked_until(const struct memory_name *name, uint32_t mode, uint32_t limit,
                                   const struct memory_entry *entry)
{
    int64_t held_ns = excluded_until(name->holders, NULL, mode);
    int64_t queued_ns = excluded_until(name->queue, entry, mode);

    if (limit > 1)
        return permit_free_at(name, limit, entry);
    return held_ns > queued_ns ? held_ns : queued_ns;
}

void memory_queue_grant(struct memory_name *name, int64_t now_ns)
{
    struct memory_entry *head = name->queue;

    while (head != NULL &&
           memory_queue_blocked_until(name, head->mode, head->limit, head) <= now_ns) {
        name->queue = head->next;
        head->permit = head->limit > 1 ? lowest_permit(name) : 0;
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
    grant->permit = holder->permit;
}
