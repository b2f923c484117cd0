/* SPDX-License-Identifier: MIT */
/*
 * setup.h - the first open of a store.
 *
 * A program that opens a file in WAL mode makes -wal and -shm if they are missing. They are missing
 * when nobody uses the file. They are also missing when somebody removed them, or moved another
 * file to its name, under running programs, which go on with the old ones: there would be two sets
 * of locks. So if they are missing, the file is opened once in exclusive mode, in which SQLite
 * needs no -shm and gets the file only if nobody uses it. Processes do this one at a time
 * (lock_file.h).
 *
 * When another database was moved to the name, -wal and -shm may belong to the one before, and may
 * still be in use; the wake file tells.
 */
#ifndef SQLITE_SETUP_H
#define SQLITE_SETUP_H

#include "clock.h"
#include "config.h"

/* Makes sure that the file can be opened: it is there, and its -wal and -shm are either there or
 * certainly not in use under other names. CONFIG: they are. UNAVAILABLE: another process opens or
 * closes the store as its only user, until until_ns. *lock_fd: for sqlite_lock_file_give, once the
 * connection has read the file; -1: there was nothing to do. */
enum dlock_status sqlite_setup_file(const struct sqlite_config *config,
                                    const struct sqlite_clock *clock, int64_t until_ns,
                                    int *lock_fd, struct dlock_error *err);

#endif
