/* SPDX-License-Identifier: MIT */
/*
 * operation.h - the operation of dlock_op_start that is under way on a handle, and the room for its
 * notices. One for a handle, made by the first dlock_op_start and kept until dlock_free.
 *
 * An operation is under way from dlock_op_start until the application has taken its DONE. It is in
 * progress until its DONE is queued. The client's mutex guards it.
 */
#ifndef DL_OPERATION_H
#define DL_OPERATION_H

#include "client/events.h"
#include "hold/run_queue.h"

/* A program has as many of these as it has handles: small members stand together. */
struct dl_operation {
    struct dl_run_node run;
    struct dl_event_node done, doubt;
    struct dlock_handle *lock;
    struct dlock_error *error; /* the text, if it is not that of the status; else NULL */
    bool performing;           /* a thread of the driver makes a blocking call for it */
    bool in_progress;
    uint8_t op;               /* enum dlock_op */
    enum dlock_status status; /* of the last operation, once it has ended */
};

static inline bool dl_operation_acquires(enum dlock_op op)
{
    return op == DLOCK_OP_LOCK || op == DLOCK_OP_RDLOCK;
}

/* operation may be NULL in each function. */

static inline bool dl_operation_in_progress(const struct dl_operation *operation)
{
    return operation != NULL && operation->in_progress;
}

static inline bool dl_operation_under_way(const struct dl_operation *operation)
{
    return operation != NULL && (operation->in_progress || operation->done.at != NULL);
}

/* ALREADY if an operation is under way, unless the calling thread performs it: it is one of the
 * driver. Else OK. */
enum dlock_status dl_operation_bars_locked(const struct dl_operation *operation,
                                           struct dlock_error *err);

/* Keeps the text of a failed operation for its DONE. */
void dl_operation_error_set(struct dl_operation *operation, enum dlock_status status,
                            const struct dlock_error *err);

/* Fills the notice of a DONE or DOUBTFUL that was taken out of the queue. */
void dl_operation_notice_locked(struct dl_event_node *node, struct dlock_notice *notice);

/* Takes the notices out of the queue, and frees the operation, which is not in progress. */
void dl_operation_free_locked(struct dl_operation *operation, struct dl_events *events);

#endif
