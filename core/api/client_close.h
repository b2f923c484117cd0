/* SPDX-License-Identifier: MIT */
/* client_close.h - the end of a client: shutdown ends all calls that wait, close also unlocks and
 * disconnects. */
#ifndef DL_CLIENT_CLOSE_H
#define DL_CLIENT_CLOSE_H

#include "client/client.h"

void dl_client_shutdown(struct dlock_client *client);
void dl_client_close(struct dlock_client *client);

#endif
