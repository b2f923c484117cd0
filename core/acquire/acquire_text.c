/* SPDX-License-Identifier: MIT */
#include "acquire/acquire_text.h"
#include "sys/error.h"

#include <dlock/dlock.h>
#include <string.h>

void dl_acquire_text_answered(struct dl_acquire_text *text, enum dlock_status status,
                              const struct dlock_grant *grant, const struct dlock_error *err)
{
    text->has_busy = status == DLOCK_BUSY && err->status == DLOCK_BUSY && grant->holder_ms >= 0 &&
                     err->message[0] != '\0' &&
                     strcmp(err->message, dlock_status_text(DLOCK_BUSY)) != 0;
    if (text->has_busy)
        text->busy = *err;
}

void dl_acquire_text_waits(struct dl_acquire_text *text, const struct dl_log *log)
{
    if (!text->has_busy || text->warned)
        return;
    text->warned = true;
    dl_log(log, DLOCK_LOG_WARNING, "waiting: %s", text->busy.message);
}

void dl_acquire_text_fails(struct dl_acquire_text *text, const struct dlock_error *err,
                           const struct dl_log *log)
{
    if (text->failure_warned || err->message[0] == '\0')
        return;
    text->failure_warned = true;
    dl_log(log, DLOCK_LOG_WARNING, "waiting: %s", err->message);
}

void dl_acquire_text_end(const struct dl_acquire_text *text, enum dlock_status status,
                         struct dlock_error *err)
{
    uint32_t nodes = err->node_count; /* the errors of the nodes stay */

    if (dlock_status_class((int)status) != DLOCK_CLASS_OUTCOME && status != DLOCK_CLOSED)
        return;
    if (text->has_busy && (status == DLOCK_BUSY || status == DLOCK_TIMEOUT)) {
        *err = text->busy;
        err->status = status;
        return;
    }
    (void)dl_error(err, status, "%s", dlock_status_text((int)status));
    err->node_count = nodes;
}
