/* SPDX-License-Identifier: MIT */
/*
 * deadlock.h - which locks nobody will ever give back, because their holders wait for each other.
 * Pure.
 *
 * A holder that waits for a lock that is stuck gives nothing back. A lock is stuck if one such
 * holder is enough to keep the waiters out; a semaphore only if all its holders are such.
 */
#ifndef CLI_DEADLOCK_H
#define CLI_DEADLOCK_H

#include <stdbool.h>
#include <stddef.h>

struct deadlock_lock {
    size_t holders;
    bool is_semaphore;
    bool is_stuck; /* out: of deadlock_find */
};

/* Holder number `holder` of lock number `lock` waits for lock number `next`. */
struct deadlock_edge {
    size_t lock, holder, next;
    size_t waiter; /* which one in the queue of `next`: for the caller */
};

struct deadlock_graph {
    struct deadlock_lock *locks;
    size_t lock_count;
    const struct deadlock_edge *edges;
    size_t edge_count;
};

/* Sets is_stuck of each lock. */
void deadlock_find(struct deadlock_graph *graph);

/* A cycle of edges between stuck locks, the first that is met from lock number `from` on: their
 * numbers in `cycle`, which has room for edge_count, and their count; 0: the lock is not stuck. */
size_t deadlock_cycle(const struct deadlock_graph *graph, size_t from, size_t *cycle);

#endif
