/* SPDX-License-Identifier: MIT */
/* layout.h - what is in a file: recognising a store, making one, upgrading one. */
#ifndef SQLITE_LAYOUT_H
#define SQLITE_LAYOUT_H

#include "config.h"

#include <sqlite3.h>

/* OK: the file is *empty, or a store of a layout that can be used or upgraded. CONFIG: neither. */
enum dlock_status sqlite_layout_identify(sqlite3 *handle, const struct sqlite_config *config,
                                         bool *empty, struct dlock_error *err);

/* CONFIG: it is not in WAL mode. */
enum dlock_status sqlite_layout_check_wal(sqlite3 *handle, const struct sqlite_config *config,
                                          struct dlock_error *err);

/* CONFIG: it has an earlier layout. */
enum dlock_status sqlite_layout_check_version(sqlite3 *handle, const struct sqlite_config *config,
                                              struct dlock_error *err);

/* Makes an empty file a store. Returns a code of SQLite. */
int sqlite_layout_make(sqlite3 *handle);

/* Gives a store of an earlier layout the present one, with all leases and fences; or changes
 * nothing. Programs of that layout that have it open fail from now on: of layout 1 always, with
 * CONFIG; of layout 2 where a name has permits or is kept. Returns a code of SQLite. */
int sqlite_layout_upgrade(sqlite3 *handle);

#endif
