/* SPDX-License-Identifier: MIT */
#include "os_error.h"

#include <errno.h>
#include <string.h>

enum dlock_status sqlite_os_error_status(int number)
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

const char *sqlite_os_error_text(int number)
{
    return number == EFBIG ? "larger than this process may write (ulimit -f)"
                           : strerrordesc_np(number);
}

enum dlock_status sqlite_os_error_fail(struct dlock_error *err, const char *path, const char *what,
                                       int number)
{
    return dlock_fail(err, SQ_ORIGIN, sqlite_os_error_status(number), number,
                      "cannot %s %.180s: %s", what, path, sqlite_os_error_text(number));
}
