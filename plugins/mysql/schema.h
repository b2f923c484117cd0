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

#endif
