/* SPDX-License-Identifier: MIT */
#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

static enum dlock_status no_memory(struct dlock_error *err)
{
    *err = (struct dlock_error)DLOCK_ERROR_INIT;
    err->status = DLOCK_NOMEM;
    return DLOCK_NOMEM;
}

static bool is_name(const struct info *info, const void *bytes, size_t len)
{
    return info->name_len == len && memcmp(info->name, bytes, len) == 0;
}

/* ---- reading ---- */

static enum dlock_status lists_read(struct snapshot *snapshot, struct dlock_client *const *clients,
                                    struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < snapshot->stores && status == DLOCK_OK; i++) {
        status = dlock_client_list(clients[i], "", 0, info_list_add, &snapshot->lists[i], err);
        if (status == DLOCK_OK && snapshot->lists[i].no_memory)
            status = no_memory(err);
        info_list_sort(&snapshot->lists[i]);
    }
    return status;
}

/* A lock for each name of the lists, which stand in the order of names. */
static bool locks_make(struct snapshot *snapshot)
{
    size_t holders = 0;
    size_t count = 0;

    for (size_t i = 0; i < snapshot->stores; i++)
        holders += snapshot->lists[i].count;
    snapshot->locks = calloc(holders + 1, sizeof *snapshot->locks);
    if (snapshot->locks == NULL)
        return false;
    for (size_t i = 0; i < snapshot->stores; i++)
        for (size_t k = 0; k < snapshot->lists[i].count; k++) {
            struct info *info = &snapshot->lists[i].items[k];
            struct snapshot_lock *lock = &snapshot->locks[count];

            if (k > 0 && is_name(info - 1, info->name, info->name_len)) {
                lock[-1].holder_count++;
                continue;
            }
            *lock = (struct snapshot_lock){.store = i, .holders = info, .holder_count = 1};
            count++;
        }
    snapshot->count = count;
    return true;
}

/* Not the failure of the store: it does not show its queue, or a foreign key has the name. */
static bool is_of_the_name(enum dlock_status status)
{
    return status == DLOCK_UNSUPPORTED || status == DLOCK_CONFIG || status == DLOCK_INVALID;
}

/* A store that counts its waiters and has none is not asked for them. */
static enum dlock_status queue_read(struct snapshot_lock *lock, struct dlock_client *client,
                                    struct dlock_error *err)
{
    const struct info *info = &lock->holders[0];
    enum dlock_status status = DLOCK_OK;

    lock->has_queue = true;
    if (info->waiters == 0)
        return DLOCK_OK;
    status =
        dlock_client_list_waiters(client, info->name, info->name_len, queue_add, &lock->queue, err);
    lock->has_queue = !is_of_the_name(status);
    if (!lock->has_queue)
        return DLOCK_OK;
    return status == DLOCK_OK && lock->queue.no_memory ? no_memory(err) : status;
}

static bool processes_read(struct snapshot_lock *lock)
{
    lock->processes = calloc(lock->holder_count, sizeof *lock->processes);
    lock->waiters = calloc(lock->queue.count + 1, sizeof *lock->waiters);
    if (lock->processes == NULL || lock->waiters == NULL)
        return false;
    for (size_t i = 0; i < lock->holder_count; i++)
        process_read(&lock->processes[i], lock->holders[i].kept ? "" : lock->holders[i].label,
                     lock->holders[i].held_ms);
    for (size_t i = 0; i < lock->queue.count; i++)
        process_read(&lock->waiters[i], lock->queue.items[i].label, -1);
    return true;
}

/* ---- which holder waits ---- */

/* A waiter, and the processes that started it. */
struct waiting {
    size_t lock, number; /* in the queue of the lock */
    const struct process *process;
    long parents[PROCESS_PARENTS_MOST];
    size_t parent_count;
};

static bool edge_add(struct snapshot *snapshot, struct deadlock_edge edge)
{
    if (snapshot->edge_count == snapshot->edge_room) {
        size_t room = snapshot->edge_room == 0 ? 16 : 2 * snapshot->edge_room;
        struct deadlock_edge *edges = reallocarray(snapshot->edges, room, sizeof *edges);

        if (edges == NULL)
            return false;
        snapshot->edges = edges;
        snapshot->edge_room = room;
    }
    snapshot->edges[snapshot->edge_count++] = edge;
    return true;
}

/* The process holds the lock, or one that it started waits for it. A process that waits for what it
 * holds itself does so in another thread. */
static bool is_holder(const struct waiting *waiting, const struct process *holder, bool same_lock)
{
    if (process_is_same(holder, waiting->process))
        return !same_lock;
    if (!process_is_here(holder))
        return false;
    for (size_t i = 0; i < waiting->parent_count; i++)
        if (waiting->parents[i] == holder->pid)
            return true;
    return false;
}

static bool waiter_edges_add(struct snapshot *snapshot, const struct waiting *waiting)
{
    for (size_t i = 0; i < snapshot->count; i++)
        for (size_t k = 0; k < snapshot->locks[i].holder_count; k++)
            if (is_holder(waiting, &snapshot->locks[i].processes[k], i == waiting->lock) &&
                !edge_add(snapshot, (struct deadlock_edge){.lock = i,
                                                           .holder = k,
                                                           .next = waiting->lock,
                                                           .waiter = waiting->number}))
                return false;
    return true;
}

static bool edges_find(struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++)
        for (size_t k = 0; k < snapshot->locks[i].queue.count; k++) {
            struct waiting waiting = {
                .lock = i, .number = k, .process = &snapshot->locks[i].waiters[k]};

            waiting.parent_count = process_parents(waiting.process, waiting.parents);
            if (!waiter_edges_add(snapshot, &waiting))
                return false;
        }
    return true;
}

enum dlock_status snapshot_read(struct snapshot *snapshot, struct dlock_client *const *clients,
                                size_t stores, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    *snapshot = (struct snapshot){.lists = calloc(stores + 1, sizeof *snapshot->lists)};
    if (snapshot->lists == NULL)
        return no_memory(err);
    snapshot->stores = stores;
    status = lists_read(snapshot, clients, err);
    if (status == DLOCK_OK && !locks_make(snapshot))
        status = no_memory(err);
    for (size_t i = 0; i < snapshot->count && status == DLOCK_OK; i++) {
        struct snapshot_lock *lock = &snapshot->locks[i];

        status = queue_read(lock, clients[lock->store], err);
        if (status == DLOCK_OK && !processes_read(lock))
            status = no_memory(err);
    }
    if (status == DLOCK_OK && !edges_find(snapshot))
        status = no_memory(err);
    return status;
}

void snapshot_fini(struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        queue_fini(&snapshot->locks[i].queue);
        free(snapshot->locks[i].processes);
        free(snapshot->locks[i].waiters);
    }
    for (size_t i = 0; i < snapshot->stores; i++)
        info_list_fini(&snapshot->lists[i]);
    free(snapshot->locks);
    free(snapshot->lists);
    free(snapshot->edges);
    *snapshot = (struct snapshot){0};
}

size_t snapshot_find(const struct snapshot *snapshot, size_t store, const struct cli_name *name)
{
    size_t i = 0;

    while (i < snapshot->count &&
           !(snapshot->locks[i].store == store &&
             is_name(&snapshot->locks[i].holders[0], name->bytes, name->len)))
        i++;
    return i;
}
