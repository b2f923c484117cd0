/* SPDX-License-Identifier: MIT */
/* handle.h - dlock_new: makes a handle of a client. */
#ifndef DL_API_HANDLE_H
#define DL_API_HANDLE_H

#include "hold/handle.h"

enum dlock_status dl_handle_new(struct dlock_client *client, const void *name, size_t name_len,
                                const struct dlock_options *options, struct dlock **out,
                                struct dlock_error *err);

#endif
