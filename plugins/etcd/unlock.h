/* SPDX-License-Identifier: MIT */
/*
 * unlock.h - slots unlock and dequeue: deletes the key of a token.
 *
 * The key has the token, so that its name alone says whose it is. It is deleted on condition that
 * its value is not that of a kept name: another user of the token may have released it so. A
 * cluster whose space is exhausted refuses the transaction. The key is read then, and deleted
 * without a condition: nobody can put it meanwhile.
 *
 * With keep_ms the key stays where it is in the queue, gets a value that says that nobody
 * holds it, and a lease of the time for which it is kept. The Put happens only if the key is as it
 * was read. So a repetition after a lost answer finds the key kept (LOST) or keeps it, and a key
 * that has ended is not put again.
 */
#ifndef ETCD_UNLOCK_H
#define ETCD_UNLOCK_H

#include "queue.h"

enum dlock_status etcd_unlock(void *self, const struct dlock_request *req, struct dlock_error *err);
enum dlock_status etcd_unlock_dequeue(void *self, const struct dlock_request *req,
                                      struct dlock_error *err);
/* Deletes the key, if nothing is kept, and clears the slot. deleted: whether a claim or a waiter
 * had it; UNKNOWN if that is in doubt. NULL: the caller need not know. */
enum dlock_status etcd_unlock_delete(struct etcd_session *session, const struct dlock_request *req,
                                     bool *deleted, struct dlock_error *err);

#endif
