/* SPDX-License-Identifier: MIT */
#include "resource.h"

#include <errno.h>

static void note(struct dlt_log *log, const struct dlt_record *record, enum dlt_event event)
{
    struct dlt_record filled = *record;

    filled.event = (uint8_t)event;
    dlt_log_write(log, &filled);
}

bool resource_write(struct shared *shared, struct dlt_log *log, const struct dlt_record *record)
{
    struct resource *resource = &shared->resources[record->name_id];
    bool accepted;

    note(log, record, DLT_WRITE_TRY);
    if (pthread_mutex_lock(&resource->guard) ==
        EOWNERDEAD) /* killed in here: nothing is half done */
        (void)pthread_mutex_consistent(&resource->guard);
    accepted = record->fence >= resource->fence;
    if (accepted)
        resource->fence = record->fence;
    resource->accepted += accepted;
    resource->rejected += !accepted;
    /* In here, so that the history has the writes in their order. */
    note(log, record, accepted ? DLT_WRITE_ACCEPT : DLT_WRITE_REJECT);
    (void)pthread_mutex_unlock(&resource->guard);
    return accepted;
}
