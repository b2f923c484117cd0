/* SPDX-License-Identifier: MIT */
/* errmap.h - SQLite's result codes as statuses and as messages. */
#ifndef SQLITE_ERRMAP_H
#define SQLITE_ERRMAP_H

#include "config.h"

#include <sqlite3.h>

/* rc: the result of a statement that has certainly not been committed. */
enum dlock_status sqlite_errmap_status(int rc);

/* rc: the result of a COMMIT. UNKNOWN unless it is certain that the COMMIT has no effect. */
enum dlock_status sqlite_errmap_commit_status(int rc);

/* Fills err with SQLite's message for rc; returns status. handle may be NULL. */
enum dlock_status sqlite_errmap_fail(struct dlock_error *err, sqlite3 *handle,
                                     const struct sqlite_config *config, enum dlock_status status,
                                     int rc);

/* After sqlite_errmap_fail, in a call without a lease: UNAVAILABLE becomes CONFIG if this process
 * may not write so large a file. No wait ends that. */
enum dlock_status sqlite_errmap_limit(sqlite3 *handle, enum dlock_status status,
                                      struct dlock_error *err);

#endif
