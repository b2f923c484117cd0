/* SPDX-License-Identifier: MIT */
/* filesystem.h - whether a file system keeps all its users on one host. */
#ifndef SQLITE_FILESYSTEM_H
#define SQLITE_FILESYSTEM_H

#include <stdbool.h>
#include <stddef.h>

/* False: other hosts may use the same files, or nobody knows. */
bool sqlite_filesystem_is_local(const char *directory);

/* Its name, as "ext4"; or its number in hex, in buf. */
const char *sqlite_filesystem_name(const char *directory, char *buf, size_t size);

#endif
