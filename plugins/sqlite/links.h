/* SPDX-License-Identifier: MIT */
/* links.h - symbolic links in the path of a store. */
#ifndef SQLITE_LINKS_H
#define SQLITE_LINKS_H

#include <dlock/plugin.h>

/* As realpath(3), but a link that another user may have put there is EPERM. Returns 0 or an errno;
 * err is filled, except for ENOENT. The caller frees *real. */
int sqlite_links_resolve(const char *path, char **real, struct dlock_error *err);

#endif
