/* SPDX-License-Identifier: MIT */
/* cancel.h - dlock_cancel: makes calls return that acquire or wait. */
#ifndef DL_CANCEL_H
#define DL_CANCEL_H

#include "hold/handle.h"

/* The call that acquires on the handle, or else the next one, returns DLOCK_CANCELED. */
void dl_cancel(struct dlock_handle *lock);

/* Takes back a dl_cancel that no call has seen. */
void dl_cancel_reset(struct dlock_handle *lock);

/* The call that acquires on the handle returns status. */
void dl_cancel_locked(struct dlock_handle *lock, enum dlock_status status);

/* The calls that acquire on any handle return status. */
void dl_cancel_all_locked(struct dlock_client *client, enum dlock_status status);

#endif
