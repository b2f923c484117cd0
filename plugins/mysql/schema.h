/* SPDX-License-Identifier: MIT */
/* schema.h - the tables: making them, and checking them. */
#ifndef MY_SCHEMA_H
#define MY_SCHEMA_H

#include "connection.h"

#include <stdio.h>

#define MY_SCHEMA_VERSION 1

/* Writes the queries whose answers my_schema_check reads, with a semicolon before each. full: also
 * for the tables themselves, and not only for their strategy. */
void my_schema_queries(FILE *out, const struct my_connection *conn, bool full);

/* Some or all of the answers, at least one. *missing: there are no tables. CONFIG: the tables are
 * of another strategy or version, or a table is not what it has to be. */
enum dlock_status my_schema_check(struct my_connection *conn, MYSQL_RES *const *answers,
                                  size_t count, bool full, bool *missing, struct dlock_error *err);

/* Sends the queries and checks the answers, even if the tables were checked a moment ago. */
enum dlock_status my_schema_recheck(struct my_connection *conn, struct dlock_error *err);

/* NO_STORE: create=off. */
enum dlock_status my_schema_create(struct my_connection *conn, struct dlock_error *err);

/*
 * The tables {permits} and {data} of strategies row and insert. Tables of before they were there,
 * or that an administrator made, may lack them: then the client has no LIMIT and no KEEP, or no
 * DATA. Makes the ones that are not there with create=on, and checks them. OK also if the user may
 * not make them.
 */
enum dlock_status my_schema_added_ensure(struct my_connection *conn, struct dlock_error *err);

/* After a SELECT from {permits} that failed: the table is not there, or this user may not read it.
 * A name with permits is taken all the same: its row in {names} says so. */
bool my_schema_is_hidden(enum dlock_status status, const struct dlock_error *err);

#endif
