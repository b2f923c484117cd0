/* SPDX-License-Identifier: MIT */
/* batch_deadline.h - by when a batch ends. */
#ifndef LIB_BATCH_DEADLINE_H
#define LIB_BATCH_DEADLINE_H

#include <dlock/plugin.h>

/* The last deadline of n elements, at least one [BAT-3]. */
static inline int64_t dl_batch_deadline_last(struct dlock_batch_op *const *ops, size_t n)
{
    int64_t last_ns = ops[0]->req->deadline_ns;

    for (size_t i = 1; i < n; i++)
        if (ops[i]->req->deadline_ns > last_ns)
            last_ns = ops[i]->req->deadline_ns;
    return last_ns;
}

#endif
