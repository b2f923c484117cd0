/* SPDX-License-Identifier: MIT */
/*
 * opening.h - the first session of a client, made by the calling thread (dlock_client_open) or by a
 * thread of the driver (dlock_client_open_start), which queues OPENED.
 */
#ifndef DL_OPENING_H
#define DL_OPENING_H

#include "client/client.h"

/* Makes the first session, in the time that dlock_client_open may take. With open=lazy: nothing. */
enum dlock_status dl_opening_reach(struct dlock_client *client, struct dlock_error *err);

/* Makes room for OPENED; a thread of the driver has to call dl_opening_run_locked. A call of the
 * client is in progress until then. */
enum dlock_status dl_opening_begin_locked(struct dlock_client *client, struct dlock_error *err);

/* Reaches the store, and queues OPENED. Releases the mutex meanwhile. Nothing was begun: nothing.
 */
void dl_opening_run_locked(struct dlock_client *client);

/* OPENED, taken out of the queue; err: its text. */
struct dlock_notice dl_opening_notice_locked(const struct dlock_client *client,
                                             struct dlock_error *err);

#endif
