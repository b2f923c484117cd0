/* SPDX-License-Identifier: MIT */
#include "acquire/acquire_text.h"
#include "sys/error.h"

#include <dlock/dlock.h>
#include <stdlib.h>
#include <string.h>

void dl_acquire_text_answered(struct dl_acquire_text *text, enum dlock_status status,
                              const struct dlock_grant *grant, const struct dlock_error *err)
{
    bool has_text = status == DLOCK_BUSY && err->status == DLOCK_BUSY && grant->holder_ms >= 0 &&
                    err->message[0] != '\0' &&
                    strcmp(err->message, dlock_status_text(DLOCK_BUSY)) != 0;

    if (!has_text)
        dl_acquire_text_fini(text);
    else if (text->busy == NULL) /* without memory the text is left out */
        text->busy = malloc(sizeof *text->busy);
    if (text->busy != NULL)
        *text->busy = *err;
}

void dl_acquire_text_waits(struct dl_acquire_text *text, const struct dl_name_state *name,
                           const struct dl_log *log)
{
    char out[DL_NAME_TEXT];

    if (text->busy == NULL || text->warned)
        return;
    text->warned = true;
    dl_log(log, DLOCK_LOG_WARNING, "%s: waiting: %s", dl_name_state_text(name, out),
           text->busy->message);
}

void dl_acquire_text_fails(struct dl_acquire_text *text, const struct dlock_error *err,
                           const struct dl_name_state *name, const struct dl_log *log)
{
    char out[DL_NAME_TEXT];

    if (text->failure_warned || err->message[0] == '\0')
        return;
    text->failure_warned = true;
    dl_log(log, DLOCK_LOG_WARNING, "%s: waiting: %s", dl_name_state_text(name, out), err->message);
}

void dl_acquire_text_end(const struct dl_acquire_text *text, enum dlock_status status,
                         struct dlock_error *err)
{
    uint32_t nodes = err->node_count; /* the errors of the nodes stay */

    if (dlock_status_class((int)status) != DLOCK_CLASS_OUTCOME && status != DLOCK_CLOSED)
        return;
    if (text->busy != NULL && (status == DLOCK_BUSY || status == DLOCK_TIMEOUT)) {
        *err = *text->busy;
        err->status = status;
        return;
    }
    (void)dl_error(err, status, "%s", dlock_status_text((int)status));
    err->node_count = nodes;
}

void dl_acquire_text_fini(struct dl_acquire_text *text)
{
    free(text->busy);
    text->busy = NULL;
}
