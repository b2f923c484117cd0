/* SPDX-License-Identifier: MIT */
/*
 * queue.h - the queue of a name, in a write transaction.
 *
 * The rules: a free name goes to the first live waiter, also when another client asks. Readers at
 * the head are granted together, and no reader passes a waiting writer. A queue entry lasts for
 * waiter_ttl, and so does a grant to a waiter, or for the ttl if that is shorter.
 */
#ifndef SQLITE_QUEUE_H
#define SQLITE_QUEUE_H

#include "name.h"

/* Forgets dead readers and waiters, and grants the name to the waiters at the head that can have
 * it. */
int sqlite_queue_advance(struct sqlite_name *name);

/* Of an advanced name: keeps the token's queue entry, or adds one at the end if req asks for it.
 * *queued: it has one, and grant describes it. */
int sqlite_queue_enter(struct sqlite_name *name, const struct dlock_request *req, bool *queued,
                       struct dlock_grant *grant);
int sqlite_queue_remove(struct sqlite_name *name, const unsigned char *token);

/* True: the attempt holds the lock of life.h for the token of req, and began to if it did not. */
bool sqlite_queue_is_marked(struct sqlite_name *name, const struct dlock_request *req);

/* The label of the token's row, with the mark of life.h, for which the attempt begins to hold its
 * lock. */
void sqlite_queue_label(struct sqlite_name *name, const struct dlock_request *req,
                        char label[SQ_LABEL_SIZE]);

/* Adds the first waiter to the wake set: it may not know that it is the first. */
int sqlite_queue_wake_first(struct sqlite_name *name);

/* After a lease or a queue entry ended, and after a downgrade: advances, saves, and adds the
 * waiters that have to know to the wake set. */
int sqlite_queue_pass_on(struct sqlite_name *name);

/* Orphans are leases of the name whose process has died (life.h). */
#define SQ_ORPHAN_POLL_NS (20 * DL_NS_PER_MS) /* the first waiter polls so often */

/* *found: the name has one. Needs no transaction and no sqlite_name_find. */
int sqlite_queue_find_orphan(struct sqlite_name *name, bool *found);

/* In a write transaction, of a name that was found: ends them. *ended: there were some. The caller
 * advances and saves the name. */
int sqlite_queue_end_orphans(struct sqlite_name *name, bool *ended);

#endif
