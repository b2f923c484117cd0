/* SPDX-License-Identifier: MIT */
/*
 * take.h - makes the node of a token, or asks where it stands: the steps of slots trylock and
 * trylock_batch.
 *
 * patience_ns: how long calls may sleep in all while contenders for permits choose. What they slept
 * is taken off; with nothing left the answer is BUSY.
 */
#ifndef ZK_TAKE_H
#define ZK_TAKE_H

#include "flight.h"
#include "session.h"

#define ZK_TAKE_MOST (ZK_FLIGHT_MOST / 2) /* two requests for each */

enum dlock_status zk_take_one(struct zk_session *session, const struct dlock_request *req,
                              struct dlock_grant *grant, int64_t *patience_ns,
                              struct dlock_error *err);

/*
 * Locks whose attempts have nothing in doubt, ZK_TAKE_MOST at most: the steps of all are made
 * together, in this order. A node that is refused is deleted before the next step. Each element has
 * its status. False: no memory, and nothing was done.
 */
bool zk_take_together(struct zk_session *session, struct dlock_batch_op *const *ops, size_t n,
                      int64_t *patience_ns);

#endif
