/* SPDX-License-Identifier: MIT */
/*
 * lock_file.h - a lock for the process that makes files beside a store.
 *
 * It is on an empty file beside the store that only those may open who may write the store: a lock
 * on the directory, or on a file that others may read, could be held by anybody who may read it.
 * The file is there while somebody has the lock, or was killed with it.
 */
#ifndef SQLITE_LOCK_FILE_H
#define SQLITE_LOCK_FILE_H

#include "config.h"

#define SQ_LOCK_SUFFIX "-dlock-setup"

/* Waits until until_ns of sqlite_clock_boottime. A descriptor for sqlite_lock_file_give; or -1 and
 * errno: EBUSY if another process kept it locked, EPERM if it is not empty, or if a user who may
 * not write the store may have made it. */
int sqlite_lock_file_take(const struct sqlite_config *config, int64_t until_ns);
void sqlite_lock_file_give(const struct sqlite_config *config, int fd);

#endif
