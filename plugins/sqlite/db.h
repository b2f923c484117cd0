/* SPDX-License-Identifier: MIT */
/* db.h - a connection to a store, its transactions, and noticing that its file was moved. */
#ifndef SQLITE_DB_H
#define SQLITE_DB_H

#include "config.h"
#include "layout.h"
#include "wake_file.h"

#include <sqlite3.h>
#include <sys/stat.h>

struct sqlite_db {
    sqlite3 *handle;
    sqlite3_stmt *statements[SQ_STATEMENTS]; /* NULL: not used so far */
    const struct sqlite_config *config;      /* borrowed */
    struct sqlite_wake_file wake_file;
    struct sqlite_wake_set wake_set; /* the waiters to wake at the end of the transaction */
    struct stat opened;              /* the file that is open */
    struct stat root;                /* "/" at that time */
    int64_t until_ns;                /* deadline for a busy file, of sqlite_clock_boottime */
    bool entered;                    /* the ticket lock, for this transaction */
};

/* Waits until db->until_ns. CONFIG: not a database, not a store, or of a newer version. */
enum dlock_status sqlite_db_open(struct sqlite_db *db, const struct sqlite_config *config,
                                 struct dlock_error *err);
void sqlite_db_close(struct sqlite_db *db);

/* True: connections may be used in several threads, as SQLite was built and as the application
 * configured it. */
bool sqlite_db_is_threadsafe(void);

/* Opens the connection alone, with settings that leave no surprises. The caller closes *handle,
 * also after a failure. */
enum dlock_status sqlite_db_connect(const struct sqlite_config *config, sqlite3 **handle,
                                    struct dlock_error *err);

/* To be called after the first read, before a write: sqlite_trust_check_open. */
enum dlock_status sqlite_db_trust(sqlite3 *handle, const struct sqlite_config *config,
                                  bool index_too, struct dlock_error *err);

/* CONFIG: SQLite could open the file for reading only, but it has to be written. */
enum dlock_status sqlite_db_check_writable(sqlite3 *handle, const struct sqlite_config *config,
                                           struct dlock_error *err);

/* Fills err for rc, the result of a statement that has certainly not been committed. */
enum dlock_status sqlite_db_fail(struct sqlite_db *db, int rc, struct dlock_error *err);

/* Begins a write transaction, alone in the file. UNAVAILABLE: other processes were in it until
 * db->until_ns. */
enum dlock_status sqlite_db_begin(struct sqlite_db *db, struct dlock_error *err);

/* Ends it and wakes the waiters in db->wake_set. OK: committed. UNKNOWN: not known. CONFIG: rolled
 * back, because the file was moved and a change in it would bind nobody. UNAVAILABLE: rolled back,
 * also if nobody can tell whether the file was moved. */
enum dlock_status sqlite_db_commit(struct sqlite_db *db, struct dlock_error *err);

/* The same for a change that only ends leases or queue entries: if nobody can tell whether the file
 * was moved, it is committed. */
enum dlock_status sqlite_db_commit_end(struct sqlite_db *db, struct dlock_error *err);

void sqlite_db_rollback(struct sqlite_db *db);

/* OK: the open file is the one at the path. CONFIG: it is not. UNAVAILABLE: the path cannot be
 * examined now; or the file was opened as a snapshot, and another program has opened it since. */
enum dlock_status sqlite_db_check_unmoved(struct sqlite_db *db, struct dlock_error *err);

/* A statement, prepared at its first use. Returns a code of SQLite; *out is NULL on failure. */
int sqlite_db_statement(struct sqlite_db *db, enum sqlite_statement which, sqlite3_stmt **out);

/* Runs a prepared statement to its next row or end: SQLITE_ROW or SQLITE_DONE, others are errors.
 * Reset it afterwards. */
int sqlite_db_step(struct sqlite_db *db, enum sqlite_statement which);
void sqlite_db_reset(struct sqlite_db *db, enum sqlite_statement which);

#endif
