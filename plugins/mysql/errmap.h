/* SPDX-License-Identifier: MIT */
/* errmap.h - error numbers of the server and of libmariadb as statuses. */
#ifndef MY_ERRMAP_H
#define MY_ERRMAP_H

#include <dlock/plugin.h>
#include <stdbool.h>

#define MY_ORIGIN "mysql"

#ifdef __clang_analyzer__
/* The analyzer does not see what a variadic function returns. */
#define dlock_fail(err, origin, status, ...) \
    ((void)dlock_fail(err, origin, status, __VA_ARGS__), (status))
#endif

/* What an error means for a request that was sent. in_transaction: the request has no effect
 * without a COMMIT. Otherwise a request that may have taken effect is UNKNOWN. */
enum dlock_status my_errmap_status(unsigned code, bool in_transaction);

/* Whether the connection is of no use after this error. */
bool my_errmap_fatal(unsigned code);

/* Whether another transaction was in the way and nothing has happened: 1205, 1213, 1020, 1062. */
bool my_errmap_contention(unsigned code);

/* Whether the server ended a statement that had waited, or run, for too long. */
bool my_errmap_out_of_time(unsigned code);

/* status, or BUSY if it was a failure by contention. */
enum dlock_status my_errmap_contended(enum dlock_status status, const struct dlock_error *err);

#endif
