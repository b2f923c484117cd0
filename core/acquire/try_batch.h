/* SPDX-License-Identifier: MIT */
/*
 * try_batch.h - one exchange with the store for the TRY and REFRESH of many attempts, by the slot
 * trylock_batch.
 */
#ifndef DL_TRY_BATCH_H
#define DL_TRY_BATCH_H

#include "acquire/acquire_steps.h"
#include "hold/unlock_batch.h"

/* Whether the plugin has the slots, and the client can use them. */
bool dl_try_batch_is_there(struct dlock_client *client);

/* attempts: 1 to DL_BATCH_MOST of one client, each in TRY or REFRESH, with deadlines that are
 * close. Afterwards each attempt has another step. */
void dl_try_batch_run(struct dl_acquire *const *attempts, size_t n);

#endif
