/* SPDX-License-Identifier: MIT */
/*
 * permit_table.h - the table {permits} of strategies row and insert. Tables of before it was there,
 * or that an administrator made, may lack it: then the client has no LIMIT and no KEEP.
 */
#ifndef MY_PERMIT_TABLE_H
#define MY_PERMIT_TABLE_H

#include "connection.h"

#include <stdio.h>

/* Writes the query whose answer my_permit_table_check reads, with a semicolon before it; none for
 * strategy session. */
void my_permit_table_query(FILE *out, const struct my_connection *conn);

/* Notes in conn->tables whether the table is there. CONFIG: it is not what it has to be. */
enum dlock_status my_permit_table_check(struct my_connection *conn, MYSQL_RES *answer,
                                        struct dlock_error *err);

/* Makes the table if it is not there and create=on. OK also if the user may not. */
enum dlock_status my_permit_table_ensure(struct my_connection *conn, struct dlock_error *err);

/* After a SELECT that failed: the table is not there, or this user may not read it. A name with
 * permits is taken all the same: its row in {names} says so. */
bool my_permit_table_is_hidden(enum dlock_status status, const struct dlock_error *err);

#endif
