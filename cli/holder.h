/* SPDX-License-Identifier: MIT */
/* holder.h - the holder of a name, as text for a message. */
#ifndef CLI_HOLDER_H
#define CLI_HOLDER_H

#include "args.h"

#define HOLDER_SIZE 512 /* size of a buffer for the words */

/*
 * "held by web1:4242@9f3c11d0:nightly for 12.0s, 18.0s left", or "ran already at 2026-11-24
 * 17:05:30 UTC on web1:4242@9f3c11d0, kept until 2026-11-24 18:00:00 UTC", by one
 * dlock_client_inspect. False, and an empty text: nobody holds the name now, or the store does not
 * know.
 */
bool holder_describe(struct dlock_client *client, const struct cli_name *name,
                     char out[HOLDER_SIZE]);

#endif
