/* SPDX-License-Identifier: MIT */
#include "errmap.h"

#include "os_error.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum dlock_status sqlite_errmap_status(int rc)
{
    if (rc == SQLITE_IOERR_NOMEM)
        return DLOCK_NOMEM;
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return DLOCK_OK;
    case SQLITE_NOMEM:
        return DLOCK_NOMEM;
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return DLOCK_AUTH;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_NOLFS:
    case SQLITE_ERROR: /* the statements fit our schema: this is another one */
    case SQLITE_SCHEMA:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
        return DLOCK_CONFIG;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
    case SQLITE_READONLY:
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_CANTOPEN:
        return DLOCK_UNAVAILABLE;
    default: /* MISUSE, RANGE, INTERNAL ... */
        return DLOCK_INTERNAL;
    }
}

enum dlock_status sqlite_errmap_commit_status(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
        return DLOCK_OK;
    case SQLITE_BUSY:
    case SQLITE_FULL: /* the end of the page commits it, and there was no room for the page */
        return DLOCK_UNAVAILABLE;
    default: /* what reached the disk may count when SQLite reads the log after a crash */
        return DLOCK_UNKNOWN;
    }
}

enum dlock_status sqlite_errmap_fail(struct dlock_error *err, sqlite3 *handle,
                                     const struct sqlite_config *config, enum dlock_status status,
                                     int rc)
{
    int number = handle != NULL ? sqlite3_system_errno(handle) : 0;
    int primary = rc & 0xff;

    if (primary == SQLITE_MISMATCH)
        return dlock_fail(err, SQ_ORIGIN, status, rc,
                          "%.180s: the row of this name was not written by dlock", config->path);
    if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED)
        return dlock_fail(err, SQ_ORIGIN, status, rc,
                          "%.180s: other processes kept it locked until the deadline",
                          config->path);
    if (primary == SQLITE_NOTADB)
        return dlock_fail(err, SQ_ORIGIN, status, rc, "%.200s is not a SQLite database",
                          config->path);
    if ((primary == SQLITE_READONLY || primary == SQLITE_CANTOPEN) &&
        sqlite_config_may(config, W_OK) && sqlite_config_directory_errno(config) != 0) {
        number = sqlite_config_directory_errno(config);
        return dlock_fail(err, SQ_ORIGIN, sqlite_os_error_status(number), rc,
                          "cannot make -wal and -shm in directory %.180s: %s", config->directory,
                          strerrordesc_np(number));
    }
    if (number != 0 && (primary == SQLITE_CANTOPEN || primary == SQLITE_IOERR))
        return dlock_fail(
            err, SQ_ORIGIN, primary == SQLITE_CANTOPEN ? sqlite_os_error_status(number) : status,
            rc, "%.150s: %s: %s", config->path, sqlite3_errstr(rc), sqlite_os_error_text(number));
    return dlock_fail(err, SQ_ORIGIN, status, rc, "%.150s: %s", config->path,
                      handle != NULL ? sqlite3_errmsg(handle) : sqlite3_errstr(rc));
}

enum dlock_status sqlite_errmap_limit(sqlite3 *handle, enum dlock_status status,
                                      struct dlock_error *err)
{
    if (status == DLOCK_UNAVAILABLE && (err->code & 0xff) == SQLITE_IOERR &&
        sqlite3_system_errno(handle) == EFBIG)
        err->status = status = DLOCK_CONFIG;
    return status;
}
