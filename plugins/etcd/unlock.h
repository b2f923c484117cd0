/* SPDX-License-Identifier: MIT */
/*
 * unlock.h - slots unlock and dequeue: deletes the key of a token.
 *
 * The key has the token, so that its name alone says whose it is. It is deleted on condition that
 * its value is not that of a kept name: another user of the token may have released it so. A
 * cluster whose space is exhausted refuses the transaction. The key is read then, and deleted
 * without a condition: nobody can put it meanwhile.
 */
#ifndef ETCD_UNLOCK_H
#define ETCD_UNLOCK_H

#include "slot.h"

enum dlock_status etcd_unlock(struct etcd_session *session, const struct dlock_request *req,
                              struct dlock_error *err);
enum dlock_status etcd_unlock_dequeue(struct etcd_session *session, const struct dlock_request *req,
                                      struct dlock_error *err);

/* Deletes the key, if nothing is kept, and clears the slot. deleted: whether a claim or a waiter
 * had it; UNKNOWN if that is in doubt. NULL: the caller need not know. */
enum dlock_status etcd_unlock_delete(struct etcd_session *session, const struct dlock_request *req,
                                     bool *deleted, struct dlock_error *err);

#endif
