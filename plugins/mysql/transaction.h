/* SPDX-License-Identifier: MIT */
/* transaction.h - transactions, and what the server says of them. */
#ifndef MY_TRANSACTION_H
#define MY_TRANSACTION_H

#include "connection.h"

enum dlock_status my_transaction_begin(struct my_connection *conn, struct dlock_error *err);

/* UNKNOWN: sent, and no answer. */
enum dlock_status my_transaction_commit(struct my_connection *conn, struct dlock_error *err);

/* The answer does not matter: a connection that fails here is dead. So is a connection that has a
 * transaction open after this or after a commit. */
void my_transaction_rollback(struct my_connection *conn);

/* Whether the server's last answer, unless it was an error, said that a transaction is open; */
bool my_transaction_is_open(const struct my_connection *conn);
/* that autocommit is on. */
bool my_transaction_autocommits(const struct my_connection *conn);

/* After a SELECT: with autocommit off it may have begun a transaction. */
void my_transaction_end_read(struct my_connection *conn);

#endif
