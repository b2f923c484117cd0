/* SPDX-License-Identifier: MIT */
/* links.h - symbolic links, directories and the file in the path of a store. */
#ifndef SQLITE_LINKS_H
#define SQLITE_LINKS_H

#include <dlock/plugin.h>
#include <stdbool.h>
#include <sys/stat.h>

/* As realpath(3), but what another user may have put on the way is EPERM. Returns 0 or an errno;
 * err is filled, except for ENOENT. The caller frees *real. */
int sqlite_links_resolve(const char *path, char **real, struct dlock_error *err);

/* False: another user may have put this entry into the directory, which has the sticky bit, and in
 * which everybody may make files. The owner of the directory and this user are trusted. */
bool sqlite_links_may_use(const char *directory, const struct stat *entry);

/* AUTH: fills err for such an entry. */
enum dlock_status sqlite_links_refuse(const char *path, struct dlock_error *err);

#endif
