/* SPDX-License-Identifier: MIT */
/* query.h - statements that are sent as text. */
#ifndef MY_QUERY_H
#define MY_QUERY_H

#include "connection.h"

#define MY_RESULTS 10

/* NULL for a statement that has no rows. */
struct my_results {
    MYSQL_RES *list[MY_RESULTS];
    size_t count;
};

/* Several statements, with semicolons between them, in one exchange. After the first that fails
 * none is executed; results has the answers before it, too. Free them after any status. */
enum dlock_status my_query_script(struct my_connection *conn, const char *text,
                                  struct my_results *results, struct dlock_error *err);
void my_query_results_free(struct my_results *results);

/* One statement; its answer is thrown away. */
enum dlock_status my_query(struct my_connection *conn, const char *text, struct dlock_error *err);

/* One statement with a result of so many columns, to be freed by mysql_free_result; NULL unless OK.
 * Without an answer a SELECT is UNAVAILABLE: it changes nothing. */
enum dlock_status my_query_select(struct my_connection *conn, const char *text, unsigned columns,
                                  MYSQL_RES **result, struct dlock_error *err);

#endif
