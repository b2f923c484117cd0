/* SPDX-License-Identifier: MIT */
/* take.h - slots trylock and trylock_batch: makes the node of a token, or asks where it stands. */
#ifndef ZK_TAKE_H
#define ZK_TAKE_H

#include "session.h"

enum dlock_status zk_take(void *self, const struct dlock_request *req, struct dlock_grant *grant,
                          struct dlock_error *err);

/*
 * Locks share their exchanges. Permits, and attempts that had a create without an answer, have
 * single calls, which follow one after another and sleep no longer than one of them. Writers that
 * are refused are in no reader's way: without a queue entry they come after readers of their name.
 * Each element has its status.
 */
enum dlock_status zk_take_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                struct dlock_error *err);

#endif
