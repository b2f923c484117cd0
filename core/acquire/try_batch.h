/* SPDX-License-Identifier: MIT */
/*
 * try_batch.h - one exchange with the store for the TRY and REFRESH of many attempts, by the slot
 * trylock_batch: of the driver's attempts, in two parts, begin and send, or of blocking calls.
 */
#ifndef DL_TRY_BATCH_H
#define DL_TRY_BATCH_H

#include "acquire/acquire_steps.h"
#include "hold/unlock.h"

struct dl_try_batch {
    struct dl_session *session;
    int64_t sent_ns; /* from which the deadlines of the requests count */
};

/* Takes the session for 1 to DL_BATCH_MOST attempts of one client, each in TRY or REFRESH. false:
 * there is none, and each attempt has another step. */
bool dl_try_batch_begin(struct dl_try_batch *batch, struct dl_acquire *const *attempts, size_t n);

/* Makes the exchange, for those of the attempts whose deadlines are close still: the session may
 * have come late [BAT-3]. At least one. Afterwards each of them has another step. */
void dl_try_batch_send(struct dl_try_batch *batch, struct dl_acquire *const *attempts, size_t n);

/* Makes the step of an attempt of a blocking call, TRY or REFRESH. Threads that want to make theirs
 * at the same time share an exchange, if the client can: false, if it cannot. */
bool dl_try_batch_step(struct dl_acquire *attempt);

#endif
