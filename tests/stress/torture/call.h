/* SPDX-License-Identifier: MIT */
/*
 * call.h - the calls of an actor on a handle: by blocking functions, or by operations of
 * dlock_op_start for which the actor waits. The thread of the worker that takes the notices tells
 * of their ends.
 */
#ifndef TORTURE_CALL_H
#define TORTURE_CALL_H

#include "worker.h"

enum dlock_status call_make(struct grip *grip, enum dlock_op op, int64_t timeout_ms);

/* A notice DONE; its user is a grip. */
void call_done(const struct worker *worker, const struct dlock_notice *notice);

/* How much later than a blocking call it may end: two exchanges of others that the store does not
 * answer (C19). */
int64_t call_later_ms(const struct grip *grip);

#endif
