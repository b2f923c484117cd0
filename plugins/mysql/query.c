/* SPDX-License-Identifier: MIT */
#include "query.h"

/* The answer to the query that was sent, or to the next one of several. *result may be NULL after
 * OK. */
static enum dlock_status answer(struct my_connection *conn, struct my_call *call,
                                MYSQL_RES **result, struct dlock_error *err)
{
    enum dlock_status status = my_connection_call(conn, call);

    *result = NULL;
    if (status == DLOCK_OK && !call->failed && mysql_field_count(conn->mysql) > 0) {
        call->kind = MY_STORE;
        status = my_connection_call(conn, call);
        call->failed = call->result == NULL;
    }
    if (status != DLOCK_OK)
        return my_connection_unanswered(conn, status, err);
    conn->answered_ns = my_connection_now(conn);
    if (call->failed)
        return my_connection_refused(conn, mysql_errno(conn->mysql), mysql_error(conn->mysql), err);
    conn->affected = mysql_affected_rows(conn->mysql);
    conn->insert_id = mysql_insert_id(conn->mysql);
    *result = call->result;
    return DLOCK_OK;
}

enum dlock_status my_query_script(struct my_connection *conn, const char *text,
                                  struct my_results *results, struct dlock_error *err)
{
    struct my_call call = {.kind = MY_QUERY, .text = text};
    enum dlock_status status = DLOCK_INTERNAL;

    results->count = 0;
    do {
        status = answer(conn, &call, &results->list[results->count], err);
        if (status != DLOCK_OK)
            return status;
        results->affected[results->count++] = conn->affected;
        call = (struct my_call){.kind = MY_NEXT};
    } while (mysql_more_results(conn->mysql) && results->count < MY_RESULTS);
    return mysql_more_results(conn->mysql) ? my_connection_bad_reply(conn, err) : DLOCK_OK;
}

void my_query_results_free(struct my_results *results)
{
    for (size_t i = 0; i < results->count; i++)
        mysql_free_result(results->list[i]);
    results->count = 0;
}

static unsigned columns_of(MYSQL_RES *result)
{
    return result != NULL ? mysql_num_fields(result) : 0;
}

enum dlock_status my_query_select(struct my_connection *conn, const char *text, unsigned columns,
                                  MYSQL_RES **result, struct dlock_error *err)
{
    struct my_results results = {.count = 0};
    enum dlock_status status = my_query_script(conn, text, &results, err);

    *result = NULL;
    if (status == DLOCK_OK && (results.count != 1 || columns_of(results.list[0]) != columns))
        status = my_connection_bad_reply(conn, err);
    if (status == DLOCK_OK)
        *result = results.list[0];
    else
        my_query_results_free(&results);
    return status == DLOCK_UNKNOWN && columns > 0 ? DLOCK_UNAVAILABLE : status;
}

enum dlock_status my_query(struct my_connection *conn, const char *text, struct dlock_error *err)
{
    MYSQL_RES *none = NULL;

    return my_query_select(conn, text, 0, &none, err);
}

/* Sends a ping, unless one is outstanding, and reads its answer. */
static enum dlock_status ping_run(struct my_connection *conn, struct dlock_error *err)
{
    struct my_call call = {.kind = MY_QUERY, .text = "DO 0", .pending = conn->ping_wait};
    enum dlock_status status = my_connection_resume(conn, &call);

    conn->ping_wait = status == DLOCK_TIMEOUT ? call.pending : 0;
    if (status == DLOCK_TIMEOUT)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNKNOWN, 0, "%s: no answer in time to a ping",
                          conn->config->endpoint);
    if (status != DLOCK_OK) {
        conn->dead = true;
        return my_connection_unanswered(conn, status, err);
    }
    conn->answered_ns = my_connection_now(conn);
    if (call.failed)
        return my_connection_refused(conn, mysql_errno(conn->mysql), mysql_error(conn->mysql), err);
    return mysql_field_count(conn->mysql) == 0 ? DLOCK_OK : my_connection_bad_reply(conn, err);
}

enum dlock_status my_query_catch_up(struct my_connection *conn, struct dlock_error *err)
{
    return conn->ping_wait != 0 ? ping_run(conn, err) : DLOCK_OK;
}

enum dlock_status my_query_ping(struct my_connection *conn, struct dlock_error *err)
{
    enum dlock_status status = my_query_catch_up(conn, err);

    return status == DLOCK_OK ? ping_run(conn, err) : status;
}

/* ---- transactions ---- */

enum dlock_status my_query_begin(struct my_connection *conn, struct dlock_error *err)
{
    conn->in_transaction = true;
    return my_query(conn, "BEGIN", err);
}

/* The locks of a transaction that goes on would never be given back. */
static enum dlock_status transaction_end(struct my_connection *conn, const char *text,
                                         struct dlock_error *err)
{
    enum dlock_status status = my_query(conn, text, err);

    if (status == DLOCK_OK && my_query_is_in_transaction(conn))
        conn->dead = true;
    return status;
}

enum dlock_status my_query_commit(struct my_connection *conn, struct dlock_error *err)
{
    conn->in_transaction = false;
    return transaction_end(conn, "COMMIT", err);
}

void my_query_rollback(struct my_connection *conn)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (!conn->dead && transaction_end(conn, "ROLLBACK", &ignored) != DLOCK_OK)
        conn->dead = true;
    conn->in_transaction = false;
}

static unsigned server_status(const struct my_connection *conn)
{
    unsigned status = 0;

    return mariadb_get_infov(conn->mysql, MARIADB_CONNECTION_SERVER_STATUS, &status) == 0 ? status
                                                                                          : 0;
}

bool my_query_is_in_transaction(const struct my_connection *conn)
{
    return (server_status(conn) & SERVER_STATUS_IN_TRANS) != 0;
}

bool my_query_autocommits(const struct my_connection *conn)
{
    return (server_status(conn) & SERVER_STATUS_AUTOCOMMIT) != 0;
}

void my_query_end_read(struct my_connection *conn)
{
    if (!conn->dead && my_query_is_in_transaction(conn))
        my_query_rollback(conn);
}
