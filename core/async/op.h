/* SPDX-License-Identifier: MIT */
/*
 * op.h - an operation of dlock_op_start at work: one call of run makes the exchanges that it needs
 * now. Many operations at once: batch.h.
 */
#ifndef DL_OP_H
#define DL_OP_H

#include "async/acquire_async.h"
#include "hold/operation.h"

/* The memory of dl_operation is the beginning of this. */
struct dl_op {
    struct dl_operation base;
    struct dl_acquire_async acquire;
};

static inline struct dl_op *dl_op_of(struct dl_run_node *node)
{
    return (struct dl_op *)(void *)((char *)node - offsetof(struct dl_op, base.run));
}

static inline bool dl_op_is_acquire(const struct dl_op *op)
{
    return dl_operation_acquires(op->base.op);
}

/* A thread of the driver works on the operation. */
void dl_op_perform_locked(struct dl_op *op);

/* The operation has ended: its DONE is queued, and the handle may be freed once the mutex is. */
void dl_op_end_locked(struct dl_op *op, enum dlock_status status, const struct dlock_error *err);

/* The acquire has ended with status, or waits. */
void dl_op_acquire_ended_locked(struct dl_op *op, enum dlock_status status,
                                const struct dlock_error *err);
void dl_op_acquire_waits_locked(struct dl_op *op);

/* Runs the operation until it ends or waits. stalled: the store has just been silent, and is not
 * asked. Releases the mutex meanwhile. */
void dl_op_run_locked(struct dl_op *op, bool stalled);

/* Whether the operation, which has run since begun_ns, has found that the store is silent. */
bool dl_op_is_stall(const struct dl_op *op, int64_t begun_ns, int64_t now_ns);

#endif
