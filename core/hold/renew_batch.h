/* SPDX-License-Identifier: MIT */
/*
 * renew_batch.h - what the renewer renews in one exchange: which handles are due and which join
 * them, how long the exchange may last, and what the answers mean.
 *
 * Only the renewer calls these functions, with the client's mutex held. A handle is renewer_busy
 * from collecting to applying, and no callback runs meanwhile: a callback may wait for any handle.
 */
#ifndef DL_RENEW_BATCH_H
#define DL_RENEW_BATCH_H

#include "hold/handle.h"

/* Collects the handles for the next exchange in renewer->batch, marks them renewer_busy, and
 * returns their number. Reports losses first: returns 0 while one waits for a callback. */
size_t dl_renew_batch_collect_locked(struct dlock_client *client, int64_t now_ns);

/* Renews the n handles of the batch in one exchange. Releases the mutex meanwhile. */
void dl_renew_batch_renew_locked(struct dlock_client *client, size_t n);

/* The deadline of an exchange for these n handles that begins now. It respects every lease of the
 * client, and the leases that handles may get meanwhile. See DL_IO_LIMIT_LEAST_NS. */
int64_t dl_renew_batch_until_locked(struct dlock_client *client, struct dlock_handle *const *locks,
                                    size_t n, int64_t now_ns);

/* Whether a loss waits for the callback. */
bool dl_renew_batch_losses_pending_locked(const struct dlock_client *client);

/* The renewer no longer uses the handle. */
void dl_renew_batch_busy_end_locked(struct dlock_handle *lock);

#endif
