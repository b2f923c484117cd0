/* SPDX-License-Identifier: MIT */
/* check.h - checks of arguments that several functions of dlock.h have. Each fills *err. */
#ifndef DL_CHECK_H
#define DL_CHECK_H

#include "client/client.h"

/* A client that this process opened. Begins *err; caller: the error of the call (dl_error_begin).
 */
enum dlock_status dl_check_client(const struct dlock_client *client,
                                  const struct dlock_error *caller, struct dlock_error *err);

/* *name_len: DLOCK_NUL becomes the length of the text. */
enum dlock_status dl_check_name(const void *name, size_t *name_len, struct dlock_error *err);

/* The arguments of an acquire, and whether the last probe found the store fit. */
enum dlock_status dl_check_acquire(struct dlock_client *client, enum dlock_mode mode,
                                   int64_t timeout_ms, struct dlock_error *err);

/* A ttl to renew with: 0, or 50 ms to 7 days. */
enum dlock_status dl_check_ttl(int64_t ttl_ms, struct dlock_error *err);

#endif
