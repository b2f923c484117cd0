/* SPDX-License-Identifier: MIT */
/*
 * query.h - statements: one exchange each, until conn->deadline_ns.
 *
 * Parameters and results are binary, except for texts. Declare the parameters of functions as
 * bytea, bigint and text: the server looks for a function with exactly these types.
 *
 * A pooler may hand over the answer to another client's statement. The first exchange of a
 * connection proves that the answers are its own, and behind a pooler each one does, except where
 * strategy session has found that a session of the server belongs to this client: a random number
 * is sent before the statement and comes back before the answer. If anything else comes, the
 * outcome is UNKNOWN, and conn->stray and conn->dead are set. The log says once that a pooler has
 * handed over another's answer. An error does not say so: it may be this connection's own, and err
 * has its text without its code.
 */
#ifndef PG_QUERY_H
#define PG_QUERY_H

#include "connection.h"
#include "params.h"

/* By which every statement of ours finds its names: set for the session (open.c), or, with the
 * number that proves, for the exchange. */
#define PG_QUERY_SEARCH_PATH "pg_catalog, pg_temp"

/*
 * Runs one statement. *result: its rows, to be freed by PQclear; NULL unless OK.
 *
 * Where conn->isolate, the statement is wrapped as BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE,
 * call, COMMIT in one pipeline. UNAVAILABLE: the statement was not sent, or the server undid it.
 * UNKNOWN: sent, and no conclusive answer. CANCELED: by conn->stop, and what the statement did is
 * not known either. Other statuses are those of connection.h; err->code is pg_connection_error_code
 * of the SQLSTATE. After a failure of the connection, a timeout and CANCELED conn->dead is set.
 */
enum dlock_status pg_query(struct pg_connection *conn, const char *sql,
                           const struct pg_params *params, PGresult **result,
                           struct dlock_error *err);

/* The same for a statement that changes nothing: UNAVAILABLE instead of UNKNOWN, never wrapped. */
enum dlock_status pg_query_read(struct pg_connection *conn, const char *sql,
                                const struct pg_params *params, PGresult **result,
                                struct dlock_error *err);

/*
 * As pg_query, but not wrapped, for a statement that may be answered late. UNKNOWN: no answer by
 * the deadline. It stays outstanding then, and the connection lives on: conn->outstanding, not
 * conn->dead. The answer to an outstanding one is read first.
 */
enum dlock_status pg_query_ping(struct pg_connection *conn, const char *sql,
                                const struct pg_params *params, PGresult **result,
                                struct dlock_error *err);

/* Reads the answer to an outstanding ping. OK: there is none any more. UNKNOWN: no answer by the
 * deadline. Others as above, of the ping. */
enum dlock_status pg_query_catch_up(struct pg_connection *conn, struct dlock_error *err);

/* Prepares a statement under a name, of which params gives the types of the parameters. Behind a
 * pooler the name would stay with a session that another client gets next. UNAVAILABLE instead of
 * UNKNOWN. */
enum dlock_status pg_query_prepare(struct pg_connection *conn, const char *name, const char *sql,
                                   const struct pg_params *params, struct dlock_error *err);

/* As pg_query, of a statement that was prepared. Never wrapped. */
enum dlock_status pg_query_prepared(struct pg_connection *conn, const char *name,
                                    const struct pg_params *params, PGresult **result,
                                    struct dlock_error *err);

/*
 * Two statements that were prepared, each a transaction of its own, in one exchange: the server
 * begins the second without waiting for the client. The status, *result and err are of the first
 * one, as above. *second: the second one was executed, too; if it was not, conn->dead may be set.
 */
enum dlock_status pg_query_prepared_pair(struct pg_connection *conn, const char *const names[2],
                                         const struct pg_params *const params[2], PGresult **result,
                                         bool *second, struct dlock_error *err);

/* Statements without parameters, with semicolons between them, as one transaction, for the setup.
 * Their results are thrown away. */
enum dlock_status pg_query_script(struct pg_connection *conn, const char *text,
                                  struct dlock_error *err);

/* Checks that *result has exactly `columns` columns and at least `rows` rows. If not, frees it,
 * sets it to NULL and returns PROTOCOL. */
enum dlock_status pg_query_expect(struct pg_connection *conn, PGresult **result, int columns,
                                  int rows, struct dlock_error *err);

/* One value. A number of two, four or eight bytes; a boolean is 0 or 1; null is 0. */
int64_t pg_query_number(const PGresult *result, int row, int column);
/* NULL: null. The bytes belong to the result, and a NUL follows them. */
const unsigned char *pg_query_bytes(const PGresult *result, int row, int column, size_t *len);
const char *pg_query_text(const PGresult *result, int row, int column);

#endif
