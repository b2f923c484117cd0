/* SPDX-License-Identifier: MIT */
/* secret.h - the password for a server, read again for each new connection [SEC-1]. */
#ifndef RESP_SECRET_H
#define RESP_SECRET_H

#include <dlock/plugin.h>
#include <stddef.h>

#define RESP_SECRET_MAX ((size_t)16 * 1024) /* bytes that read_secret may give, with the NUL */

/* Reads the present password of the URI. *secret: to be freed by dl_secret_free; NULL: there is
 * none. */
enum dlock_status resp_secret_read(const struct dlock_target *target, const char *origin,
                                   char **secret, struct dlock_error *err);

#endif
