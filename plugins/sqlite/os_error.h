/* SPDX-License-Identifier: MIT */
/* os_error.h - a system call's errno as a status and as a message. */
#ifndef SQLITE_OS_ERROR_H
#define SQLITE_OS_ERROR_H

#include <dlock/plugin.h>

#define SQ_ORIGIN "sqlite"

#ifdef __clang_analyzer__
/* It cannot see through a variadic call what that returns. */
#define dlock_fail(err, origin, status, ...) \
    ((void)dlock_fail(err, origin, status, __VA_ARGS__), (status))
#endif

/* What the errno of a system call on a store's files means for the store. */
enum dlock_status sqlite_os_error_status(int number);

const char *sqlite_os_error_text(int number);

/* Fills err with "cannot <what> <path>: <text of the errno>"; returns the status. */
enum dlock_status sqlite_os_error_fail(struct dlock_error *err, const char *path, const char *what,
                                       int number);

#endif
