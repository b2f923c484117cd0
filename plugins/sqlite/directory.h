/* SPDX-License-Identifier: MIT */
/* directory.h - a lock on the directory of a store, for the process that makes files in it. */
#ifndef SQLITE_DIRECTORY_H
#define SQLITE_DIRECTORY_H

#include <stdint.h>

/* Waits until until_ns of sqlite_clock_boottime. A descriptor for sqlite_directory_unlock; or -1
 * and errno, EBUSY if another process kept it locked. */
int sqlite_directory_lock(const char *directory, int64_t until_ns);
void sqlite_directory_unlock(int fd);

#endif
