/* SPDX-License-Identifier: MIT */
/* handle.h - dlock_new makes a handle of a client; dlock_free ends the call on it, unlocks it and
 * frees it. */
#ifndef DL_API_HANDLE_H
#define DL_API_HANDLE_H

#include "hold/handle.h"

enum dlock_status dl_handle_new(struct dlock_client *client, const void *name, size_t name_len,
                                const struct dlock_options *options, struct dlock_handle **out,
                                struct dlock_error *err);

void dl_handle_free(struct dlock_handle *lock);

/* In the child of a fork: closes the descriptors, sends nothing, and frees what
 * dl_client_unref_after_fork says. */
void dl_handle_free_after_fork(struct dlock_handle *lock);

#endif
