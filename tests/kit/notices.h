/* SPDX-License-Identifier: MIT */
/* notices.h - takes a notice of a client, in one expression. */
#ifndef DLT_NOTICES_H
#define DLT_NOTICES_H

#include <dlock/dlock.h>

/* 1: *notice is filled; 0: none was queued; -1: the call failed. */
static inline int dlt_notice_take(struct dlock_client *client, struct dlock_notice *notice,
                                  struct dlock_error *err)
{
    if (dlock_client_next(client, notice, err) != DLOCK_OK)
        return -1;
    return notice->kind != DLOCK_NOTICE_NONE;
}

#endif
