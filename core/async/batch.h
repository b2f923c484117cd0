/* SPDX-License-Identifier: MIT */
/*
 * batch.h - operations that a thread of the driver runs together: the attempts that are due leave
 * in one exchange (slot trylock_batch), and so do the unlocks (unlock_batch).
 *
 * An operation that needs another exchange, or whose store has just been silent, runs alone. So
 * does each operation if the plugin has no such slots.
 */
#ifndef DL_BATCH_H
#define DL_BATCH_H

#include "async/op.h"

/* What a thread needs, in run_queue->room of its number; freed with the queue. NULL: no memory. */
void *dl_batch_room_new(void);

/* Runs an operation that was taken from the run queue, and those behind it that can go with it.
 * self: the number of the thread. Releases the mutex meanwhile. */
void dl_batch_run_locked(struct dlock_client *client, unsigned self, struct dl_run_node *first,
                         int64_t now_ns);

#endif
