/* SPDX-License-Identifier: MIT */
/*
 * errmap.h - what an error of the server means for the statement that it answers.
 *
 * An error that the server reports as ERROR has undone the statement, also when it comes with the
 * commit. An error that ends the session (FATAL, PANIC) may have come after the commit.
 */
#ifndef PG_ERRMAP_H
#define PG_ERRMAP_H

#include <dlock/plugin.h>
#include <stdbool.h>

/* An SQLSTATE of five characters as the number in dlock_error.code: the server's own packing, six
 * bits a character, the first one lowest. 0: state is NULL or has another form. */
int32_t pg_errmap_code(const char *state);

/* state: as PG_DIAG_SQLSTATE, NULL: the library's own error. fatal: the session has ended. */
enum dlock_status pg_errmap_status(const char *state, bool fatal);

/* Why a connection was not made. text: the library's message, where state is NULL. */
enum dlock_status pg_errmap_connect(const char *state, const char *text);

/* Whether another transaction was in the way and nothing has happened: 40001, 40P01, 55P03, 23505.
 */
bool pg_errmap_contention(int32_t code);

#endif
