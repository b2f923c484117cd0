/* SPDX-License-Identifier: MIT */
/* handle_free.h - dlock_free: ends the call on a handle, unlocks it and frees it. */
#ifndef DL_HANDLE_FREE_H
#define DL_HANDLE_FREE_H

#include "hold/handle.h"

void dl_handle_free(struct dlock *lock);

/* In the child of a fork: closes the descriptors, sends nothing, and frees what
 * dl_client_unref_after_fork says. */
void dl_handle_free_after_fork(struct dlock *lock);

#endif
