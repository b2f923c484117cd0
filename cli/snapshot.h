/* SPDX-License-Identifier: MIT */
/* snapshot.h - the locks of one store or several, with their holders, their queues, and the
 * processes of both. The stores are asked one after another: it is not one moment. */
#ifndef CLI_SNAPSHOT_H
#define CLI_SNAPSHOT_H

#include "args.h"
#include "deadlock.h"
#include "info.h"
#include "process.h"

struct snapshot_lock {
    size_t store;
    struct info *holders; /* at least one; of the store's list */
    size_t holder_count;
    struct process *processes; /* of the holders */
    struct queue queue;
    struct process *waiters; /* of the queue */
    bool has_queue;          /* false: somebody may wait, and the store does not show it */
};

struct snapshot {
    struct info_list *lists; /* a store each */
    size_t stores;
    struct snapshot_lock *locks; /* by store and name */
    size_t count;
    struct deadlock_edge *edges; /* which holder waits for which lock */
    size_t edge_count, edge_room;
};

/* OK, or why a store could not be read; err says which. In either case: snapshot_fini. */
enum dlock_status snapshot_read(struct snapshot *snapshot, struct dlock_client *const *clients,
                                size_t stores, struct dlock_error *err);
void snapshot_fini(struct snapshot *snapshot);

/* The number of the lock; count: the name is free. */
size_t snapshot_find(const struct snapshot *snapshot, size_t store, const struct cli_name *name);

#endif
