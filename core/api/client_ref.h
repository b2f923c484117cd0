/* SPDX-License-Identifier: MIT */
/*
 * client_ref.h - how long a client lives: until it is closed and its last handle is freed. The
 * client itself and each of its handles count as one reference. Close waits for calls.
 */
#ifndef DL_CLIENT_REF_H
#define DL_CLIENT_REF_H

#include "client/client.h"

/* Drops one reference, and frees the client with the last one. Without the mutex. */
void dl_client_unref(struct dlock_client *client);

/*
 * The same in the child of a fork, where no mutex can be used. Another thread of the parent may
 * have been changing what belongs to the client: freed it, and not forgotten it yet. So the child
 * frees only what no such thread changes, and the rest stays.
 */
void dl_client_unref_after_fork(struct dlock_client *client);

/* A call that is not on a handle begins (CLOSED: it may not) and ends. */
enum dlock_status dl_client_call_begin(struct dlock_client *client, struct dlock_error *err);
void dl_client_call_end(struct dlock_client *client);

/* Frees a client that nothing else refers to; nothing is connected. */
void dl_client_free(struct dlock_client *client);

#endif
