/* SPDX-License-Identifier: MIT */
/*
 * error.h - filling struct dlock_error.
 *
 * Inside core no error is NULL. The caller's struct, which may be absent, is written once, by
 * dl_error_export, on the way out of api.c.
 */
#ifndef DL_ERROR_H
#define DL_ERROR_H

#include <dlock/types.h>

/* The error of a public call: empty, with the array for nodes that the caller has given. The call
 * ends with dl_error_export. caller may be NULL. */
void dl_error_begin(struct dlock_error *err, const struct dlock_error *caller);

/* No error; nodes stays as it is. */
void dl_error_reset(struct dlock_error *err);

/* Fills *err with origin "core" and returns status. */
__attribute__((format(printf, 3, 4))) enum dlock_status
dl_error(struct dlock_error *err, enum dlock_status status, const char *format, ...);
#ifdef __clang_analyzer__
/* It cannot see through a variadic call what that returns. */
#define dl_error(err, status, ...) ((void)dl_error(err, status, __VA_ARGS__), (status))
#endif

/* Copies the error, sanitised to printable text, and returns status. to may be NULL. */
enum dlock_status dl_error_export(struct dlock_error *to, const struct dlock_error *from,
                                  enum dlock_status status);

#endif
