/* SPDX-License-Identifier: MIT */
/* execute.h - execution of the statements of statements.h. */
#ifndef MY_EXECUTE_H
#define MY_EXECUTE_H

#include "connection.h"

/* conn->input from a request; the number is left alone. */
void my_execute_input(struct my_connection *conn, const struct dlock_request *req);
void my_execute_input_name(struct my_connection *conn, const unsigned char *name,
                           uint32_t name_len);

/* A statement with its inputs in it, for free(); NULL: no memory. */
char *my_execute_text(struct my_connection *conn, enum my_statement which);

/* Runs a statement, and prepares it if it was used before; affected and insert_id are its. Without
 * an answer a SELECT is UNAVAILABLE: it changes nothing. */
enum dlock_status my_execute(struct my_connection *conn, enum my_statement which,
                             struct dlock_error *err);
/* The next row, in conn->row. false: there is none. */
bool my_execute_fetch(struct my_connection *conn, enum my_statement which);
/* After the last row that matters. */
void my_execute_done(struct my_connection *conn, enum my_statement which);

/* All three: *found says whether there was a row. */
enum dlock_status my_execute_row(struct my_connection *conn, enum my_statement which, bool *found,
                                 struct dlock_error *err);

#endif
