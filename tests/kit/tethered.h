/* SPDX-License-Identifier: MIT */
/*
 * tethered.h - the memory plugin with hooks, and leases that no time ends, as those that live in
 * the session of their client (DLOCK_CAP_TETHERED): the store's clock stands still.
 */
#ifndef DLT_TETHERED_H
#define DLT_TETHERED_H

#include "memory_hooks.h"

/* For clients of this store; call it before the client is opened. */
const struct dlock_plugin *dlt_tethered_plugin(const char *store);

#endif
