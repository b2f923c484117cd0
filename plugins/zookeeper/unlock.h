/* SPDX-License-Identifier: MIT */
/* unlock.h - slots unlock, unlock_batch, dequeue and forget: deletes the node of a token. */
#ifndef ZK_UNLOCK_H
#define ZK_UNLOCK_H

#include "session.h"

enum dlock_status zk_unlock(void *self, const struct dlock_request *req, struct dlock_error *err);
/* Nodes that hold their names go in one exchange. The others have single calls, which follow one
 * after another. Each element has its status. */
enum dlock_status zk_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                  struct dlock_error *err);
enum dlock_status zk_unlock_dequeue(void *self, const struct dlock_request *req,
                                    struct dlock_error *err);
void zk_unlock_forget(void *self, const struct dlock_request *req);

#endif
