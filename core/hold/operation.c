/* SPDX-License-Identifier: MIT */
#include "hold/operation.h"
#include "hold/handle.h"
#include "sys/error.h"

#include <stdlib.h>
#include <string.h>

enum dlock_status dl_operation_bars_locked(const struct dl_operation *operation,
                                           struct dlock_error *err)
{
    if (!dl_operation_under_way(operation) ||
        (operation->performing && dl_run_queue_has_thread(operation->lock->client->run_queue)))
        return DLOCK_OK;
    return dl_error(err, DLOCK_ALREADY,
                    "an operation of dlock_op_start is under way on this handle");
}

void dl_operation_error_set(struct dl_operation *operation, enum dlock_status status,
                            const struct dlock_error *err)
{
    free(operation->error);
    operation->error = NULL;
    if (status == DLOCK_OK || err->message[0] == '\0' ||
        strcmp(err->message, dlock_status_text((int)status)) == 0)
        return;
    operation->error = malloc(sizeof *err); /* without memory the text is that of the status */
    if (operation->error != NULL)
        *operation->error = *err;
}

static struct dl_operation *operation_of(struct dl_event_node *node)
{
    size_t at = node->kind == DLOCK_NOTICE_DONE ? offsetof(struct dl_operation, done)
                                                : offsetof(struct dl_operation, doubt);

    return (struct dl_operation *)(void *)((char *)node - at);
}

void dl_operation_notice_locked(struct dl_event_node *node, struct dlock_notice *notice)
{
    static const struct dlock_error no_text = DLOCK_ERROR_INIT;
    struct dl_operation *operation = operation_of(node);

    notice->kind = node->kind;
    notice->lock = operation->lock;
    notice->user = operation->lock->user;
    notice->fence = atomic_load(&operation->lock->fence);
    if (node->kind != DLOCK_NOTICE_DONE)
        return;
    notice->op = operation->op;
    notice->status = operation->status;
    if (dl_operation_acquires(operation->op) && operation->status != DLOCK_OK)
        notice->fence = 0;
    (void)dl_error_export(&notice->error, operation->error != NULL ? operation->error : &no_text,
                          operation->status);
}

void dl_operation_free_locked(struct dl_operation *operation, struct dl_events *events)
{
    if (operation == NULL)
        return;
    dl_events_remove(events, &operation->done);
    dl_events_remove(events, &operation->doubt);
    dl_run_queue_unnumber_locked(operation->lock->client->run_queue, &operation->run);
    free(operation->error);
    free(operation);
}
