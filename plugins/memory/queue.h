/* SPDX-License-Identifier: MIT */
/* queue.h - the holders of a name, its waiters, and the next of them. All functions need the
 * store's mutex. */
#ifndef MEMORY_QUEUE_H
#define MEMORY_QUEUE_H

#include "store.h"

#define MEMORY_FENCE_ROOM 31u /* numbers of a grant besides its first */

/* The last fence that was given out in this process, its room included. */
uint64_t memory_queue_last_fence(void);

/* The holder or the queue entry with this token, expired or not; NULL: neither. */
struct memory_entry *memory_queue_find(const struct memory_name *name, const unsigned char *token);

/* Removes a holder or a queue entry. */
void memory_queue_remove(struct memory_name *name, struct memory_entry *entry);

/* Live queue entries, and waiters that never asked for one. */
uint32_t memory_queue_count(const struct memory_name *name, int64_t now_ns);

/* When nothing will block this mode and limit any more, if nobody acts before: a moment in the
 * past, or the time to sleep until. entry: its place in the queue; NULL: the end of the queue. */
int64_t memory_queue_blocked_until(const struct memory_name *name, uint32_t mode, uint32_t limit,
                                   const struct memory_entry *entry);

/* The limit of the entries of the name, if there is one that has another than `limit`; else 0. */
uint32_t memory_queue_other_limit(const struct memory_name *name, uint32_t limit);

/* Makes the first of the queue a holder, then the next, while they can hold together. Each gets a
 * new fence and a lease of its grant_ms, and is woken. After a reap. */
void memory_queue_grant(struct memory_name *name, int64_t now_ns);

/* After a lease or a queue entry ended: reaps, grants, wakes, tidies. */
void memory_queue_pass_on(struct memory_store *store, struct memory_name *name, int64_t now_ns);

/* Describes a holder's lease. The store keeps it for at least lease_ms, which is never more than
 * ttl_ms. */
void memory_queue_describe(struct dlock_grant *grant, const struct memory_name *name,
                           const struct memory_entry *holder, int64_t ttl_ms, int64_t now_ns);

#endif
