/* SPDX-License-Identifier: MIT */
/* Who holds a name, who waits for it and who is next. */
#include "memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t last_fence; /* of the process, so that it survives every store [UNL-3] */

uint64_t memory_fence_next(void)
{
    return atomic_fetch_add(&last_fence, 1 + MEMORY_FENCE_ROOM) + 1;
}

uint64_t memory_fence_last(void)
{
    return atomic_load(&last_fence);
}

static struct memory_claim *list_find(struct memory_claim *list, const unsigned char *token)
{
    while (list != NULL && memcmp(list->token, token, DLOCK_TOKEN_SIZE) != 0)
        list = list->next;
    return list;
}

struct memory_claim *memory_claim_find(const struct memory_name *name, const unsigned char *token)
{
    struct memory_claim *holder = list_find(name->holders, token);

    return holder != NULL ? holder : list_find(name->queue, token);
}

static void list_append(struct memory_claim **list, struct memory_claim *claim)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = claim;
    claim->next = NULL;
}

static void list_remove(struct memory_claim **list, const struct memory_claim *claim)
{
    while (*list != NULL && *list != claim)
        list = &(*list)->next;
    if (*list == claim)
        *list = claim->next;
}

struct memory_claim *memory_claim_add(struct memory_name *name, const struct dlock_request *req)
{
    size_t label_len = req->label == NULL ? 0 : strnlen(req->label, MEMORY_LABEL_MAX);
    struct memory_claim *claim = calloc(1, sizeof *claim + label_len + 1);

    if (claim == NULL)
        return NULL;
    memcpy(claim->token, req->token, sizeof claim->token);
    claim->mode = req->mode;
    if (label_len > 0)
        memcpy(claim->label, req->label, label_len);
    list_append(&name->queue, claim);
    return claim;
}

void memory_claim_extend(struct memory_claim *claim, int64_t lease_ms, int64_t now_ns)
{
    int64_t expires_ns = now_ns + lease_ms * DL_NS_PER_MS;

    if (expires_ns > claim->expires_ns)
        claim->expires_ns = expires_ns;
}

int64_t memory_claim_left_ms(const struct memory_claim *claim, int64_t now_ns)
{
    return (claim->expires_ns - now_ns + DL_NS_PER_MS - 1) / DL_NS_PER_MS;
}

void memory_claim_remove(struct memory_name *name, struct memory_claim *claim)
{
    list_remove(claim->fence != 0 ? &name->holders : &name->queue, claim);
    free(claim);
}

/* The last expiry of those from `list` on and before `end` that exclude the mode. */
static int64_t excluded_until(const struct memory_claim *list, const struct memory_claim *end,
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

int64_t memory_name_blocked_until(const struct memory_name *name, uint32_t mode,
                                  const struct memory_claim *place)
{
    int64_t held_ns = excluded_until(name->holders, NULL, mode);
    int64_t queued_ns = excluded_until(name->queue, place, mode);

    return held_ns > queued_ns ? held_ns : queued_ns;
}

static void list_reap(struct memory_claim **list, int64_t now_ns)
{
    while (*list != NULL) {
        struct memory_claim *claim = *list;

        if (claim->expires_ns <= now_ns) {
            *list = claim->next;
            free(claim);
        } else {
            list = &claim->next;
        }
    }
}

void memory_name_reap(struct memory_name *name, int64_t now_ns)
{
    list_reap(&name->holders, now_ns);
    list_reap(&name->queue, now_ns);
}

void memory_name_grant(struct memory_name *name, int64_t now_ns)
{
    struct memory_claim *head = name->queue;

    while (head != NULL && memory_name_blocked_until(name, head->mode, head) <= now_ns) {
        name->queue = head->next;
        list_append(&name->holders, head);
        name->fence = memory_fence_next();
        head->fence = name->fence;
        head->since_ns = now_ns;
        head->expires_ns = now_ns + head->grant_lease_ms * DL_NS_PER_MS;
        memory_waiter_wake(name->sleepers, head->token);
        head = name->queue;
    }
}

void memory_name_pass_on(struct memory_store *store, struct memory_name *name, int64_t now_ns)
{
    memory_name_reap(name, now_ns);
    memory_name_grant(name, now_ns);
    if (name->queue == NULL)
        memory_waiters_wake_unqueued(name->sleepers);
    memory_name_tidy(store, name);
}

int memory_name_held(const struct memory_name *name, int64_t now_ns)
{
    for (const struct memory_claim *c = name->holders; c != NULL; c = c->next) {
        if (c->expires_ns > now_ns)
            return 1;
    }
    return 0;
}

uint32_t memory_name_waiters(const struct memory_name *name, int64_t now_ns)
{
    uint32_t count = 0;

    for (const struct memory_claim *c = name->queue; c != NULL; c = c->next)
        count += c->expires_ns > now_ns;
    for (const struct memory_waiter *w = name->sleepers; w != NULL; w = w->next)
        count += !w->enqueued;
    return count;
}

void memory_grant_fill(struct dlock_grant *grant, const struct memory_name *name,
                       const struct memory_claim *claim, int64_t ttl_ms, int64_t now_ns)
{
    int64_t left_ms = (claim->expires_ns - now_ns) / DL_NS_PER_MS;

    grant->fence = claim->fence;
    grant->fence_room = MEMORY_FENCE_ROOM;
    grant->lease_ms = left_ms < ttl_ms ? left_ms : ttl_ms;
    grant->waiters = memory_name_waiters(name, now_ns);
}
