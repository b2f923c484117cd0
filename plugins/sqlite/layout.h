/* SPDX-License-Identifier: MIT */
/* layout.h - what is in a file: recognising a store, making one, upgrading one; and all SQL. */
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

/* Bits of waiters_mask: the rows that there may be of the name. SQ_PERMITS are rows of the table of
 * readers, too: permits, and what is kept. */
enum { SQ_READERS = 1, SQ_WAITERS = 2, SQ_PERMITS = 4, SQ_SHARES = SQ_READERS | SQ_PERMITS };

enum sqlite_statement {
    SQ_BEGIN,
    SQ_COMMIT,
    SQ_ROLLBACK,
    SQ_FIND,
    SQ_TAKE_FIRST,
    SQ_TAKE,
    SQ_MARK,
    SQ_FREE,
    SQ_EXTEND,
    SQ_RELEASE,
    SQ_READERS_COUNT,
    SQ_READERS_REAP,
    SQ_READERS_END,
    SQ_READER_TAKE,
    SQ_READER_KEEP,
    SQ_READER_EXTEND,
    SQ_READER_RELEASE,
    SQ_PERMIT_TAKE,
    SQ_PERMIT_KEEP,
    SQ_LOCK_KEEP,
    SQ_WAITERS_COUNT,
    SQ_WAITERS_REAP,
    SQ_WAITERS_HEAD,
    SQ_WAITER_JOIN,
    SQ_WAITER_STAY,
    SQ_WAITER_AHEAD,
    SQ_WAITER_LEAVE,
    SQ_GRANTED,
    SQ_LIVES,
    SQ_LIVES_NOT,
    SQ_LIVES_NOT_READER,
    SQ_INSPECT,
    SQ_INSPECT_WAITERS,
    SQ_LIST,
    SQ_STATEMENTS
};

/* Each statement has some of them. */
enum sqlite_parameter {
    SQ_P_NAME = 1,
    SQ_P_TOKEN,
    SQ_P_BOOT,
    SQ_P_NOW,
    SQ_P_UNTIL,
    SQ_P_FENCE,
    SQ_P_WAITERS_MASK,
    SQ_P_LABEL,
    SQ_P_MODE,
    SQ_P_LEASE
};

extern const char *const sqlite_statement_text[SQ_STATEMENTS];

#endif
