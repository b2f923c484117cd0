/* SPDX-License-Identifier: MIT */
/* handle_new.h - dlock_new: makes a handle of a client. */
#ifndef DL_HANDLE_NEW_H
#define DL_HANDLE_NEW_H

#include "hold/handle.h"

enum dlock_status dl_handle_new(struct dlock_client *client, const void *name, size_t name_len,
                                const struct dlock_options *options, struct dlock **out,
                                struct dlock_error *err);

#endif
