/* SPDX-License-Identifier: MIT */
#include "query.h"

#include "exchange.h"

#include <endian.h>
#include <string.h>

static const struct pg_exchange plain = {.how = PG_EXCHANGE_PLAIN};

/* Ends a transaction that an error has left open. */
static void roll_back(struct pg_connection *conn)
{
    struct pg_answer answer = {NULL, NULL};

    if (conn->dead || PQtransactionStatus(conn->pq) == PQTRANS_IDLE)
        return;
    if (PQsendQuery(conn->pq, "ROLLBACK") != 1 ||
        pg_exchange_read(conn, &plain, &answer) != DLOCK_OK ||
        PQtransactionStatus(conn->pq) != PQTRANS_IDLE)
        conn->dead = true;
    pg_answer_free(&answer);
}

static enum dlock_status unanswered(struct pg_connection *conn, enum dlock_status why,
                                    struct dlock_error *err)
{
    conn->dead = true;
    if (why == DLOCK_CANCELED)
        return dlock_fail(err, PG_ORIGIN, why, 0, "the wait was cancelled");
    return dlock_fail(err, PG_ORIGIN, DLOCK_UNKNOWN, 0, "%s: no answer in time",
                      conn->config->endpoint);
}

static enum dlock_status outstanding(struct pg_connection *conn, struct dlock_error *err)
{
    conn->outstanding = true;
    return dlock_fail(err, PG_ORIGIN, DLOCK_UNKNOWN, 0, "%s: no answer in time to a ping",
                      conn->config->endpoint);
}

/* In the words of the server. */
static enum dlock_status said(const struct pg_connection *conn, const PGresult *error,
                              enum dlock_status status, int32_t code, struct dlock_error *err)
{
    const char *state = PQresultErrorField(error, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY);

    if (text == NULL)
        text = PQresultErrorMessage(error);
    return dlock_fail(err, PG_ORIGIN, status, code, "%s: %.*s%s%s%s", conn->config->endpoint,
                      (int)strcspn(text, "\n"), text, state != NULL ? " (" : "",
                      state != NULL ? state : "", state != NULL ? ")" : "");
}

/* The error of a statement that was sent. */
static enum dlock_status refused(struct pg_connection *conn, const PGresult *error,
                                 struct dlock_error *err)
{
    const char *state = PQresultErrorField(error, PG_DIAG_SQLSTATE);
    const bool fatal = state == NULL || pg_answer_is_fatal(error);
    enum dlock_status status = pg_errmap_status(state, fatal);

    conn->dead |= fatal || PQstatus(conn->pq) != CONNECTION_OK;
    if (status == DLOCK_CONFIG)
        atomic_store(&conn->shared->checked_ns, 0);
    /* A pooler's server may have got other defaults from another client. */
    if (pg_errmap_code(state) == pg_errmap_code("40001") ||
        pg_errmap_code(state) == pg_errmap_code("25006"))
        conn->isolate = true;
    return said(conn, error, status, pg_errmap_code(state), err);
}

/* The next answer may be the one to this statement. An error may be this connection's own: no code
 * says so. */
static enum dlock_status strayed(struct pg_connection *conn, const PGresult *error,
                                 struct dlock_error *err)
{
    conn->dead = true;
    if (error != NULL)
        return said(conn, error, DLOCK_UNKNOWN, 0, err);
    (void)dlock_fail(err, PG_ORIGIN, DLOCK_UNKNOWN, 0,
                     "%s: a pooler handed over an answer that belongs to another request",
                     conn->config->endpoint);
    if (!atomic_exchange(&conn->shared->stray_reported, true))
        conn->host->log(conn->host->ctx, PG_SHARED_WARNING, err->message);
    return DLOCK_UNKNOWN;
}

/* The outcome of an exchange that has ended with `status`. */
static enum dlock_status outcome(struct pg_connection *conn, enum dlock_status status,
                                 struct pg_answer *answer, PGresult **result,
                                 struct dlock_error *err)
{
    if (status != DLOCK_OK)
        return unanswered(conn, status, err);
    conn->answered_ns = pg_connection_now(conn);
    if (conn->stray)
        return strayed(conn, answer->error, err);
    if (answer->error != NULL)
        return refused(conn, answer->error, err);
    if (PQstatus(conn->pq) != CONNECTION_OK) {
        conn->dead = true;
        return dlock_fail(err, PG_ORIGIN, DLOCK_UNKNOWN, 0, "%s: %.*s", conn->config->endpoint,
                          (int)strcspn(PQerrorMessage(conn->pq), "\n"), PQerrorMessage(conn->pq));
    }
    if (conn->dead || answer->rows == NULL) {
        conn->dead = true;
        return dlock_fail(err, PG_ORIGIN, DLOCK_UNKNOWN, 0,
                          "%s: the answer does not fit the request", conn->config->endpoint);
    }
    *result = answer->rows;
    answer->rows = NULL;
    return DLOCK_OK;
}

static bool send_prepared(PGconn *pq, const char *name, const struct pg_params *params)
{
    const struct pg_exchange exchange = {
        .how = PG_EXCHANGE_PREPARED, .name = name, .params = params};

    return pg_exchange_send(pq, &exchange);
}

static enum dlock_status not_sent(struct pg_connection *conn, struct dlock_error *err)
{
    const char *text = PQerrorMessage(conn->pq);

    conn->dead = true;
    return dlock_fail(err, PG_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: %.*s", conn->config->endpoint,
                      (int)strcspn(text, "\n"), text);
}

/* Whether a statement may be sent. */
static enum dlock_status check(const struct pg_connection *conn, struct dlock_error *err)
{
    if (conn->dead)
        return dlock_fail(err, PG_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: the connection has failed",
                          conn->config->endpoint);
    if (conn->stop != NULL && atomic_load(conn->stop) != 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_CANCELED, 0, "the wait was cancelled");
    return DLOCK_OK;
}

/* A session of the server that belongs to a client has other clients' answers before the client's
 * first statement only. A client of strategy session looks at each opening whether it is so. */
static bool needs_proof(const struct pg_connection *conn, enum pg_exchange_how how)
{
    if (how != PG_EXCHANGE_PLAIN && how != PG_EXCHANGE_WRAPPED)
        return false;
    return !conn->proven ||
           (conn->pooled && (conn->config->strategy != PG_SESSION ||
                             atomic_load(&conn->shared->pooler) != PG_POOLER_SESSION));
}

static enum dlock_status exchange_prepare(struct pg_connection *conn, struct pg_exchange *exchange,
                                          struct dlock_error *err)
{
    enum dlock_status status = check(conn, err);

    exchange->proves = needs_proof(conn, exchange->how);
    if (status == DLOCK_OK && exchange->proves &&
        conn->host->random(conn->host->ctx, &exchange->number, sizeof exchange->number) != 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_INTERNAL, 0, "no random bytes");
    return status;
}

static enum dlock_status run(struct pg_connection *conn, struct pg_exchange exchange,
                             PGresult **result, struct dlock_error *err)
{
    struct pg_answer answer = {NULL, NULL};
    enum dlock_status status = exchange_prepare(conn, &exchange, err);

    *result = NULL;
    if (status != DLOCK_OK)
        return status;
    if (!pg_exchange_send(conn->pq, &exchange))
        return not_sent(conn, err);
    status = pg_exchange_read(conn, &exchange, &answer);
    status = outcome(conn, status, &answer, result, err);
    pg_answer_free(&answer);
    roll_back(conn);
    return status;
}

enum dlock_status pg_query(struct pg_connection *conn, const char *sql,
                           const struct pg_params *params, PGresult **result,
                           struct dlock_error *err)
{
    const enum pg_exchange_how how = conn->isolate ? PG_EXCHANGE_WRAPPED : PG_EXCHANGE_PLAIN;

    return run(conn, (struct pg_exchange){.how = how, .sql = sql, .params = params}, result, err);
}

/* Nothing has changed without an answer. */
static enum dlock_status undone(enum dlock_status status, struct dlock_error *err)
{
    return status == DLOCK_UNKNOWN ? (err->status = DLOCK_UNAVAILABLE) : status;
}

enum dlock_status pg_query_read(struct pg_connection *conn, const char *sql,
                                const struct pg_params *params, PGresult **result,
                                struct dlock_error *err)
{
    return undone(run(conn,
                      (struct pg_exchange){.how = PG_EXCHANGE_PLAIN, .sql = sql, .params = params},
                      result, err),
                  err);
}

enum dlock_status pg_query_ping(struct pg_connection *conn, const char *sql,
                                const struct pg_params *params, PGresult **result,
                                struct dlock_error *err)
{
    struct pg_answer answer = {NULL, NULL};
    enum dlock_status status = pg_query_catch_up(conn, err);

    *result = NULL;
    if (status == DLOCK_OK)
        status = check(conn, err);
    if (status != DLOCK_OK)
        return status;
    if (!pg_exchange_send(conn->pq, &(struct pg_exchange){.sql = sql, .params = params}))
        return not_sent(conn, err);
    status = pg_exchange_read(conn, &plain, &answer);
    if (status == DLOCK_TIMEOUT)
        status = outstanding(conn, err);
    else
        status = outcome(conn, status, &answer, result, err);
    pg_answer_free(&answer);
    return status;
}

/* The rows may have been read before. */
enum dlock_status pg_query_catch_up(struct pg_connection *conn, struct dlock_error *err)
{
    struct pg_answer answer = {NULL, NULL};
    PGresult *ignored = NULL;
    enum dlock_status status = DLOCK_OK;

    if (!conn->outstanding)
        return DLOCK_OK;
    status = pg_exchange_read(conn, &plain, &answer);
    if (status == DLOCK_TIMEOUT) {
        status = outstanding(conn, err);
    } else {
        conn->outstanding = false;
        if (status != DLOCK_OK || answer.error != NULL || conn->dead ||
            PQstatus(conn->pq) != CONNECTION_OK)
            status = outcome(conn, status, &answer, &ignored, err);
    }
    PQclear(ignored);
    pg_answer_free(&answer);
    return status;
}

enum dlock_status pg_query_prepare(struct pg_connection *conn, const char *name, const char *sql,
                                   const struct pg_params *params, struct dlock_error *err)
{
    PGresult *ignored = NULL;
    const struct pg_exchange exchange = {
        .how = PG_EXCHANGE_PREPARE, .name = name, .sql = sql, .params = params};
    enum dlock_status status = run(conn, exchange, &ignored, err);

    PQclear(ignored);
    return undone(status, err);
}

enum dlock_status pg_query_prepared(struct pg_connection *conn, const char *name,
                                    const struct pg_params *params, PGresult **result,
                                    struct dlock_error *err)
{
    return run(conn,
               (struct pg_exchange){.how = PG_EXCHANGE_PREPARED, .name = name, .params = params},
               result, err);
}

/* The second of a pair, after the answer to the first. */
static bool read_second(struct pg_connection *conn)
{
    struct pg_answer answer = {NULL, NULL};
    bool done = false;

    conn->deadline_ns = pg_connection_extend(conn, conn->deadline_ns);
    conn->dead |= pg_answer_read(conn, &answer) != DLOCK_OK ||
                  pg_answer_sync(conn, &answer) != DLOCK_OK || PQexitPipelineMode(conn->pq) == 0;
    done = !conn->dead && answer.error == NULL && answer.rows != NULL;
    pg_answer_free(&answer);
    return done;
}

enum dlock_status pg_query_prepared_pair(struct pg_connection *conn, const char *const names[2],
                                         const struct pg_params *const params[2], PGresult **result,
                                         bool *second, struct dlock_error *err)
{
    struct pg_answer answer = {NULL, NULL};
    const int64_t deadline_ns = conn->deadline_ns;
    enum dlock_status status = check(conn, err);
    bool sent = false;

    *result = NULL;
    *second = false;
    if (status != DLOCK_OK)
        return status;
    if (PQenterPipelineMode(conn->pq) != 1 || !send_prepared(conn->pq, names[0], params[0]) ||
        PQpipelineSync(conn->pq) != 1)
        return not_sent(conn, err);
    sent = send_prepared(conn->pq, names[1], params[1]) && PQpipelineSync(conn->pq) == 1;
    status = pg_exchange_read(conn, &plain, &answer);
    if (status == DLOCK_OK)
        status = pg_answer_sync(conn, &answer);
    status = outcome(conn, status, &answer, result, err);
    pg_answer_free(&answer);
    *second = sent && !conn->dead && read_second(conn);
    conn->dead |= !sent;
    conn->deadline_ns = deadline_ns;
    roll_back(conn);
    return status;
}

enum dlock_status pg_query_script(struct pg_connection *conn, const char *text,
                                  struct dlock_error *err)
{
    PGresult *ignored = NULL;
    enum dlock_status status =
        run(conn, (struct pg_exchange){.how = PG_EXCHANGE_SCRIPT, .sql = text}, &ignored, err);

    PQclear(ignored);
    return status;
}

enum dlock_status pg_query_expect(struct pg_connection *conn, PGresult **result, int columns,
                                  int rows, struct dlock_error *err)
{
    if (PQresultStatus(*result) == PGRES_TUPLES_OK && PQnfields(*result) == columns &&
        PQntuples(*result) >= rows)
        return DLOCK_OK;
    PQclear(*result);
    *result = NULL;
    return pg_connection_bad_reply(conn, err);
}

int64_t pg_query_number(const PGresult *result, int row, int column)
{
    const char *value = PQgetvalue(result, row, column);
    uint16_t two = 0;
    uint32_t four = 0;
    uint64_t eight = 0;

    switch (PQgetisnull(result, row, column) ? 0 : PQgetlength(result, row, column)) {
    case 1:
        return value[0];
    case sizeof two:
        memcpy(&two, value, sizeof two);
        return (int16_t)be16toh(two);
    case sizeof four:
        memcpy(&four, value, sizeof four);
        return (int32_t)be32toh(four);
    case sizeof eight:
        memcpy(&eight, value, sizeof eight);
        return (int64_t)be64toh(eight);
    default:
        return 0;
    }
}

const unsigned char *pg_query_bytes(const PGresult *result, int row, int column, size_t *len)
{
    *len = (size_t)PQgetlength(result, row, column);
    return (const unsigned char *)pg_query_text(result, row, column);
}

const char *pg_query_text(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}
