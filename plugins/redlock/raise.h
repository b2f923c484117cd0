/* SPDX-License-Identifier: MIT */
/* raise.h - one fencing token on a majority of the nodes (fence.h). */
#ifndef REDLOCK_RAISE_H
#define REDLOCK_RAISE_H

#include "take.h"

/* After a majority took the name. WON: a majority has one number for the lease, which is its token,
 * or the lease has none. SHORT: no number fits the clocks of a majority. UNSURE: too few nodes
 * confirmed it. */
enum redlock_quorum_verdict redlock_raise_fence(struct redlock_take *taking);

/* Why no number fits. */
enum dlock_status redlock_raise_fail(const struct redlock_take *taking, struct dlock_error *err);

#endif
