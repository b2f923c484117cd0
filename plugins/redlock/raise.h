/* SPDX-License-Identifier: MIT */
/* raise.h - one fencing token on a majority of the nodes, for each lock (fence.h). */
#ifndef REDLOCK_RAISE_H
#define REDLOCK_RAISE_H

#include "take.h"

/* For each take whose name a majority took: sets its verdict. WON: a majority has one number for
 * the lease, which is its token, or the lease has none. SHORT: no number fits the clocks of a
 * majority. UNSURE: too few nodes confirmed it. n: at most REDLOCK_BATCH_MOST, of one session. */
void redlock_raise_fences(struct redlock_take *const *takes, size_t n);

/* Why no number fits. */
enum dlock_status redlock_raise_fail(const struct redlock_take *taking, struct dlock_error *err);

#endif
