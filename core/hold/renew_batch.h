/* SPDX-License-Identifier: MIT */
/*
 * renew_batch.h - what the renewer renews in one exchange: who is due and who may join them, how
 * long it may last, and what becomes of the answers.
 *
 * Called by the renewer alone, with the client's mutex held. A handle is renewer_busy from
 * collecting to applying, and no callback runs meanwhile: that may wait for any handle.
 */
#ifndef DL_RENEW_BATCH_H
#define DL_RENEW_BATCH_H

#include "hold/handle.h"

/* The handles for the next exchange, in renewer.batch: how many, marked renewer_busy. Losses go to
 * the queue, and come first: 0 while any wait for a callback. */
size_t dl_renew_batch_collect_locked(struct dlock_client *client, int64_t now_ns);

/* One exchange for the n of them. Gives the mutex up meanwhile. */
void dl_renew_batch_renew_locked(struct dlock_client *client, size_t n);

/* Until when an exchange for these n handles that begins now may last, for the sake of every lease
 * of the client, and of those that handles may get meanwhile. See DL_IO_LIMIT_LEAST_NS. */
int64_t dl_renew_batch_until_locked(struct dlock_client *client, struct dlock *const *locks,
                                    size_t n, int64_t now_ns);

/* Whether a callback has to be told of a loss. */
bool dl_renew_batch_losses_pending_locked(const struct dlock_client *client);

/* The renewer is done with the handle. */
void dl_renew_batch_busy_end_locked(struct dlock *lock);

#endif
