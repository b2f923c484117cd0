/* SPDX-License-Identifier: MIT */
/*
 * added_table.h - the tables {permits} and {data} of strategies row and insert. Tables of before
 * they were there, or that an administrator made, may lack them: then the client has no LIMIT and
 * no KEEP, or no DATA.
 */
#ifndef MY_ADDED_TABLE_H
#define MY_ADDED_TABLE_H

#include "connection.h"

#include <stdio.h>

#define MY_ADDED_TABLES 2

/* Writes the queries whose answers my_added_table_check reads, each with a semicolon before it;
 * none for strategy session. */
void my_added_table_queries(FILE *out, const struct my_connection *conn);

/* Notes in conn which tables are not there, and in conn->tables which are. CONFIG: one is not what
 * it has to be. That it is not there may be over: another connection makes it at the same time. */
enum dlock_status my_added_table_check(struct my_connection *conn,
                                       MYSQL_RES *const answers[MY_ADDED_TABLES],
                                       struct dlock_error *err);

/* Of a check that nothing was made at the time of: tables that were not there are gone. */
void my_added_table_note(struct my_connection *conn);

/* Makes the tables, if they are not there. OK also if the user may not. A check has to follow: the
 * user may have no rights on them. */
enum dlock_status my_added_table_create(struct my_connection *conn, struct dlock_error *err);
/* The same with create=on alone, and the check. */
enum dlock_status my_added_table_ensure(struct my_connection *conn, struct dlock_error *err);

/* After a SELECT from {permits} that failed: the table is not there, or this user may not read it.
 * A name with permits is taken all the same: its row in {names} says so. */
bool my_added_table_is_hidden(enum dlock_status status, const struct dlock_error *err);

#endif
