/* SPDX-License-Identifier: MIT */
/*
 * holder_text.h - label and data of a holder as one value of a store: the label, and if there are
 * data a NUL and the data.
 *
 * No label has a NUL. A program that does not know data takes the value for a label, passes all of
 * it on from the queue entry to the lease, and shows its text up to the NUL.
 */
#ifndef DL_HOLDER_TEXT_H
#define DL_HOLDER_TEXT_H

#include <dlock/plugin.h>

#define DL_HOLDER_LABEL_MAX 255 /* longer labels are cut */
#define DL_HOLDER_TEXT_MAX  (DL_HOLDER_LABEL_MAX + 1 + DLOCK_DATA_MAX)

/* Writes the value for the request to out. Returns its length. No NUL is behind it. */
size_t dl_holder_text_make(char out[DL_HOLDER_TEXT_MAX], const struct dlock_request *req);

/* Sets label and data of the holder. They point into the value, behind which a NUL has to be. NULL:
 * there is neither. */
void dl_holder_text_read(struct dlock_holder *holder, const char *text, size_t len);

#endif
