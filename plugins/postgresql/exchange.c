/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include <endian.h>
#include <poll.h>
#include <string.h>

static const struct pg_params no_params;

static bool send_one(PGconn *pq, const char *sql, const struct pg_params *params)
{
    return PQsendQueryParams(pq, sql, params->count, params->types, params->values, params->lengths,
                             params->formats, 1) == 1;
}

/* The role's search_path may lead to operators and functions of others, and the session has none
 * yet, or may have none. */
static bool send_number(PGconn *pq, int64_t number)
{
    struct pg_params params = {.count = 0};

    pg_params_number(&params, number);
    return send_one(pq,
                    "SELECT CASE WHEN pg_catalog.set_config('search_path', '" PG_SEARCH_PATH
                    "', true) IS NOT NULL THEN $1 END",
                    &params);
}

/* Several statements in one pipeline. */
static bool send_group(PGconn *pq, const struct pg_exchange *exchange,
                       const struct pg_params *params)
{
    const bool wraps = exchange->how == PG_EXCHANGE_WRAPPED;

    return PQenterPipelineMode(pq) == 1 &&
           (!wraps ||
            send_one(pq, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", &no_params)) &&
           (!exchange->proves || send_number(pq, exchange->number)) &&
           send_one(pq, exchange->sql, params) && (!wraps || send_one(pq, "COMMIT", &no_params)) &&
           PQpipelineSync(pq) == 1;
}

static bool is_group(const struct pg_exchange *exchange)
{
    return exchange->proves || exchange->how == PG_EXCHANGE_WRAPPED;
}

bool pg_exchange_send(PGconn *pq, const struct pg_exchange *exchange)
{
    const struct pg_params *params = exchange->params != NULL ? exchange->params : &no_params;

    if (is_group(exchange))
        return send_group(pq, exchange, params);
    switch (exchange->how) {
    case PG_EXCHANGE_SCRIPT:
        return PQsendQuery(pq, exchange->sql) == 1;
    case PG_EXCHANGE_PREPARE:
        return PQsendPrepare(pq, exchange->name, exchange->sql, params->count, params->types) == 1;
    case PG_EXCHANGE_PREPARED:
        return PQsendQueryPrepared(pq, exchange->name, params->count, params->values,
                                   params->lengths, params->formats, 1) == 1;
    case PG_EXCHANGE_PLAIN:
    case PG_EXCHANGE_WRAPPED:
        break;
    }
    return send_one(pq, exchange->sql, params);
}

/* Sends what is in the library's buffer, and reads meanwhile: a server that writes may not read. */
static enum dlock_status flush(struct pg_connection *conn)
{
    enum dlock_status status = DLOCK_OK;
    int left = PQflush(conn->pq);

    while (status == DLOCK_OK && left == 1) {
        status = pg_connection_wait(conn, POLLIN | POLLOUT);
        if (status == DLOCK_OK && PQconsumeInput(conn->pq) == 0)
            return DLOCK_OK; /* the next reading says why */
        left = PQflush(conn->pq);
    }
    return status;
}

static bool is_number(const PGresult *rows, int64_t number)
{
    const uint64_t bytes = htobe64((uint64_t)number);

    return PQntuples(rows) == 1 && PQnfields(rows) == 1 && !PQgetisnull(rows, 0, 0) &&
           PQgetlength(rows, 0, 0) == (int)sizeof bytes &&
           memcmp(PQgetvalue(rows, 0, 0), &bytes, sizeof bytes) == 0;
}

/* The end of the connection, which may come before any answer. */
static bool is_end(const PGresult *error)
{
    return error != NULL &&
           (PQresultErrorField(error, PG_DIAG_SQLSTATE) == NULL || pg_answer_is_fatal(error));
}

/* The answer to BEGIN, to COMMIT, or (number not NULL) to the number. */
static enum dlock_status read_around(struct pg_connection *conn, const int64_t *number,
                                     struct pg_answer *answer)
{
    struct pg_answer around = {NULL, answer->error};
    const enum dlock_status status = pg_answer_read(conn, &around);

    answer->error = around.error;
    if (number != NULL && status == DLOCK_OK && !is_end(answer->error)) {
        conn->proven = is_number(around.rows, *number);
        conn->stray = !conn->proven;
    }
    PQclear(around.rows);
    return status;
}

/* Each answer has a NULL after it, and the sync comes last. */
static enum dlock_status read_group(struct pg_connection *conn, const struct pg_exchange *exchange,
                                    struct pg_answer *answer)
{
    const bool wraps = exchange->how == PG_EXCHANGE_WRAPPED;
    enum dlock_status status = DLOCK_OK;

    if (wraps)
        status = read_around(conn, NULL, answer);
    if (status == DLOCK_OK && exchange->proves)
        status = read_around(conn, &exchange->number, answer);
    if (status == DLOCK_OK && !conn->stray)
        status = pg_answer_read(conn, answer);
    if (status == DLOCK_OK && !conn->stray && wraps)
        status = read_around(conn, NULL, answer);
    if (status == DLOCK_OK && !conn->stray)
        status = pg_answer_sync(conn, answer);
    conn->dead |= status != DLOCK_OK || conn->stray || PQexitPipelineMode(conn->pq) == 0;
    return status;
}

enum dlock_status pg_exchange_read(struct pg_connection *conn, const struct pg_exchange *exchange,
                                   struct pg_answer *answer)
{
    enum dlock_status status = flush(conn);

    if (status != DLOCK_OK)
        return status;
    return is_group(exchange) ? read_group(conn, exchange, answer) : pg_answer_read(conn, answer);
}
