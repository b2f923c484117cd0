/* SPDX-License-Identifier: MIT */
/*
 * unlock.h - slots unlock and dequeue: deletes the key of a token.
 *
 * The key has the token, so that its name alone says whose it is. It is deleted by DeleteRange, not
 * by a transaction: etcd up to 3.5 refuses every transaction when its space is exhausted.
 */
#ifndef ETCD_UNLOCK_H
#define ETCD_UNLOCK_H

#include "slot.h"

enum dlock_status etcd_unlock(struct etcd_session *session, const struct dlock_request *req,
                              struct dlock_error *err);
enum dlock_status etcd_unlock_dequeue(struct etcd_session *session, const struct dlock_request *req,
                                      struct dlock_error *err);

/* Deletes the key and clears the slot. deleted: whether it was there; may be NULL. */
enum dlock_status etcd_unlock_delete(struct etcd_session *session, const struct dlock_request *req,
                                     bool *deleted, struct dlock_error *err);

#endif
