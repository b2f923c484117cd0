/* SPDX-License-Identifier: MIT */
/* query.h - statements that are sent as text, and transactions. */
#ifndef MY_QUERY_H
#define MY_QUERY_H

#include "connection.h"

#define MY_RESULTS 12

/* NULL for a statement that has no rows. */
struct my_results {
    MYSQL_RES *list[MY_RESULTS];
    uint64_t affected[MY_RESULTS];
    size_t count;
};

/* Several statements, with semicolons between them, in one exchange. After the first that fails
 * none is executed; results has the answers before it, too. Free them after any status. */
enum dlock_status my_query_script(struct my_connection *conn, const char *text,
                                  struct my_results *results, struct dlock_error *err);
void my_query_results_free(struct my_results *results);

/* One statement; its answer is thrown away. */
enum dlock_status my_query(struct my_connection *conn, const char *text, struct dlock_error *err);

/*
 * A statement that does nothing, and may be answered late. UNKNOWN: no answer by the deadline. It
 * stays outstanding then, and the connection lives on: conn->ping_wait, not conn->dead. The answer
 * to an outstanding one is read first.
 */
enum dlock_status my_query_ping(struct my_connection *conn, struct dlock_error *err);

/* Reads the answer to an outstanding ping. OK: there is none any more. UNKNOWN: no answer by the
 * deadline. */
enum dlock_status my_query_catch_up(struct my_connection *conn, struct dlock_error *err);

/* One statement with a result of so many columns, to be freed by mysql_free_result; NULL unless OK.
 * Without an answer a SELECT is UNAVAILABLE: it changes nothing. */
enum dlock_status my_query_select(struct my_connection *conn, const char *text, unsigned columns,
                                  MYSQL_RES **result, struct dlock_error *err);

/* ---- transactions, and what the server says of them ---- */

enum dlock_status my_query_begin(struct my_connection *conn, struct dlock_error *err);

/* UNKNOWN: sent, and no answer. */
enum dlock_status my_query_commit(struct my_connection *conn, struct dlock_error *err);

/* The answer does not matter: a connection that fails here is dead. So is a connection that has a
 * transaction open after this or after a commit. */
void my_query_rollback(struct my_connection *conn);

/* Whether the server's last answer, unless it was an error, said that a transaction is open; */
bool my_query_is_in_transaction(const struct my_connection *conn);
/* that autocommit is on. */
bool my_query_autocommits(const struct my_connection *conn);

/* After a SELECT: with autocommit off it may have begun a transaction. */
void my_query_end_read(struct my_connection *conn);

#endif
