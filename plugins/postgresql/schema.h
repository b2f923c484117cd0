/* SPDX-License-Identifier: MIT */
/*
 * schema.h - the tables and functions of the strategy: making them, and checking them. What they
 * have to be is read from the script that makes them.
 */
#ifndef PG_SCHEMA_H
#define PG_SCHEMA_H

#include "connection.h"

/* The files *.sql, which make the tables and functions of a strategy. Each runs as it stands under
 * psql. In the plugin "public.dlock_" stands for the schema and the table prefix of the URI:
 * pg_statements_expand. */
extern const char pg_script_row[];
extern const char pg_script_session[];

/* Of tables and functions together. Each function has the comment PG_SCHEMA_MARK in its body. */
#define PG_SCHEMA_VERSION 1
#define PG_SCHEMA_MARK    "-- dlock version 1\n"

/*
 * Functions of this release have this comment, too. Those without it call each other by inexact
 * types, so that a role that may create in their schema can put another function in between.
 */
#define PG_SCHEMA_FUNCTIONS      3
#define PG_SCHEMA_FUNCTIONS_MARK "-- dlock functions 3\n"

/*
 * Functions that keep semaphores and names have this comment. Functions without it are outdated.
 * They do for locks: the functions that locks call have the same parameters and results in both, so
 * that clients of both releases share tables, and those of the earlier one obey permits and what is
 * kept, as soon as the functions are new.
 */
#define PG_SCHEMA_LIMIT_MARK "-- dlock functions 2\n"

/*
 * Checks the tables and functions, and makes them where they are missing. Several clients at once
 * do no harm. NO_STORE: they are missing, and create=off. AUTH: the role must not make or read
 * them. CONFIG: they are of another strategy or version, or are not what they have to be.
 * UNAVAILABLE: also where nothing says whether they were made. Never UNKNOWN.
 *
 * Functions and tables of an earlier release are brought up to date, unless create=off. If that
 * fails, as for a role that does not own them, they are used as they are: shared->outdated. A role
 * that may not call all that semaphores need has none: shared->denied.
 */
enum dlock_status pg_schema_open(struct pg_connection *conn, struct dlock_error *err);

/* Checks only. Missing tables are CONFIG: they were there. */
enum dlock_status pg_schema_check(struct pg_connection *conn, struct dlock_error *err);

#endif
