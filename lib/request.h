/* SPDX-License-Identifier: MIT */
/* request.h - what several stores read from a request: label and data of a holder, and by when a
 * batch ends. */
#ifndef LIB_REQUEST_H
#define LIB_REQUEST_H

#include <dlock/plugin.h>

/*
 * Label and data of a holder as one value of a store: the label, and if there are
 * data a NUL and the data.
 *
 * No label has a NUL. A program that does not know data takes the value for a label, passes all of
 * it on from the queue entry to the lease, and shows its text up to the NUL.
 */

#define DL_HOLDER_LABEL_MAX 255 /* longer labels are cut */
#define DL_HOLDER_TEXT_MAX  (DL_HOLDER_LABEL_MAX + 1 + DLOCK_DATA_MAX)

/* Writes the value for the request to out. Returns its length. No NUL is behind it. */
size_t dl_holder_text_make(char out[DL_HOLDER_TEXT_MAX], const struct dlock_request *req);

/* Sets label and data of the holder. They point into the value, behind which a NUL has to be. NULL:
 * there is neither. */
void dl_holder_text_read(struct dlock_holder *holder, const char *text, size_t len);

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
