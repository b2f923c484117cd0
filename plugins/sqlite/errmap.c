/* SPDX-License-Identifier: MIT */
#include "sqlite.h"

#include <errno.h>
#include <string.h>

enum dlock_status sqlite_status_of_errno(int number)
{
    switch (number) {
    case EACCES:
    case EPERM:
        return DLOCK_AUTH;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOLCK:
        return DLOCK_NOMEM;
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EROFS:
        return DLOCK_CONFIG;
    default:
        return DLOCK_UNAVAILABLE;
    }
}

const char *sqlite_errno_text(int number)
{
    return number == EFBIG ? "larger than this process may write (ulimit -f)"
                           : strerrordesc_np(number);
}

enum dlock_status sqlite_fail_errno(struct dlock_error *err, const char *path, const char *what,
                                    int number)
{
    return dlock_fail(err, SQ_ORIGIN, sqlite_status_of_errno(number), number,
                      "cannot %s %.180s: %s", what, path, sqlite_errno_text(number));
}

enum dlock_status sqlite_status_of(int rc)
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
    case SQLITE_ERROR: /* of statements that prepare in our schema: it is another one */
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

enum dlock_status sqlite_status_of_commit(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
        return DLOCK_OK;
    case SQLITE_BUSY:
    case SQLITE_FULL: /* no room for the page, and it is the end of the page that commits it */
        return DLOCK_UNAVAILABLE;
    default: /* what reached the disk may count when the log is read again after a crash */
        return DLOCK_UNKNOWN;
    }
}
