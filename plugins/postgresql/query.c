/* SPDX-License-Identifier: MIT */
#include "query.h"

#include <endian.h>
#include <poll.h>
#include <string.h>

/* ---- an answer, until conn->deadline_ns ---- */

/* The rows of a statement, and the first error. NULL: there is none. */
struct answer {
    PGresult *rows, *error;
};

/* What is read after the deadline, when bytes have arrived already. */
#define OVERDUE_READS 16

/* The next result. *result NULL: there is none. */
static enum dlock_status answer_next(struct pg_connection *conn, PGresult **result)
{
    enum dlock_status status = DLOCK_OK;
    int overdue = 0;

    *result = NULL;
    while (PQisBusy(conn->pq) == 1) {
        status = pg_connection_wait(conn, POLLIN);
        overdue += pg_connection_now(conn) >= conn->deadline_ns;
        if (status == DLOCK_OK && overdue > OVERDUE_READS)
            status = DLOCK_TIMEOUT; /* a server that never stops sending */
        if (status != DLOCK_OK)
            return status;
        if (PQconsumeInput(conn->pq) == 0)
            break;
    }
    *result = PQgetResult(conn->pq);
    return DLOCK_OK;
}

static bool is_rows(const PGresult *result)
{
    return PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK;
}

static bool is_copy(const PGresult *result)
{
    const ExecStatusType kind = PQresultStatus(result);

    return kind == PGRES_COPY_IN || kind == PGRES_COPY_OUT || kind == PGRES_COPY_BOTH;
}

static void answer_add(struct answer *answer, PGresult *result)
{
    if (is_rows(result) && answer->rows == NULL)
        answer->rows = result;
    else if (PQresultStatus(result) == PGRES_FATAL_ERROR && answer->error == NULL)
        answer->error = result;
    else
        PQclear(result);
}

/* Reads the answer to one statement, to its end. TIMEOUT and CANCELED: it has not ended. A copy
 * sets conn->dead. The rows and the error of *answer that are there already stay. */
static enum dlock_status answer_read(struct pg_connection *conn, struct answer *answer)
{
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    while ((status = answer_next(conn, &result)) == DLOCK_OK && result != NULL) {
        const bool copies = is_copy(result);

        answer_add(answer, result);
        if (!copies)
            continue;
        conn->dead = true; /* no statement of ours copies, and the library waits for ever */
        return DLOCK_OK;
    }
    return status;
}

/* Reads the end of a pipeline. An error of the commit that the end makes counts. Anything else than
 * an end sets conn->dead. */
static enum dlock_status answer_sync(struct pg_connection *conn, struct answer *answer)
{
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_OK;
    ExecStatusType kind = PGRES_FATAL_ERROR;

    for (int i = 0; i < 3 && status == DLOCK_OK && !conn->dead && kind != PGRES_PIPELINE_SYNC;
         i++) {
        status = answer_next(conn, &result); /* an error has a NULL after it */
        kind = PQresultStatus(result);
        if (kind == PGRES_FATAL_ERROR && result != NULL)
            answer_add(answer, result);
        else
            PQclear(result);
    }
    conn->dead |= status == DLOCK_OK && kind != PGRES_PIPELINE_SYNC;
    return status;
}

/* Whether this error ends the session. */
static bool is_fatal(const PGresult *error)
{
    const char *severity = PQresultErrorField(error, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (severity == NULL)
        severity = PQresultErrorField(error, PG_DIAG_SEVERITY); /* pgbouncer has this one only */
    return severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

static void answer_free(struct answer *answer)
{
    PQclear(answer->rows);
    PQclear(answer->error);
    *answer = (struct answer){NULL, NULL};
}

/* ---- an exchange: a statement, with what goes around it ---- */

enum exchange_how {
    PLAIN,
    SCRIPT,   /* several statements without parameters */
    WRAPPED,  /* in a transaction that says what it needs */
    PREPARE,  /* under a name; it does not run */
    PREPARED, /* by its name */
};

struct exchange {
    enum exchange_how how;
    const char *name; /* of PREPARE and PREPARED */
    const char *sql;
    const struct pg_params *params; /* NULL: none */
    bool proves;                    /* PLAIN and WRAPPED: the number comes back before the answer */
    int64_t number;
};

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
                    "SELECT CASE WHEN pg_catalog.set_config('search_path', '" PG_QUERY_SEARCH_PATH
                    "', true) IS NOT NULL THEN $1 END",
                    &params);
}

/* Several statements in one pipeline. */
static bool send_group(PGconn *pq, const struct exchange *exchange, const struct pg_params *params)
{
    const bool wraps = exchange->how == WRAPPED;

    return PQenterPipelineMode(pq) == 1 &&
           (!wraps ||
            send_one(pq, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", &no_params)) &&
           (!exchange->proves || send_number(pq, exchange->number)) &&
           send_one(pq, exchange->sql, params) && (!wraps || send_one(pq, "COMMIT", &no_params)) &&
           PQpipelineSync(pq) == 1;
}

static bool is_group(const struct exchange *exchange)
{
    return exchange->proves || exchange->how == WRAPPED;
}

/* False: it was not sent; PQerrorMessage says why. The library may keep a part of it for
 * exchange_read. */
static bool exchange_send(PGconn *pq, const struct exchange *exchange)
{
    const struct pg_params *params = exchange->params != NULL ? exchange->params : &no_params;

    if (is_group(exchange))
        return send_group(pq, exchange, params);
    switch (exchange->how) {
    case SCRIPT:
        return PQsendQuery(pq, exchange->sql) == 1;
    case PREPARE:
        return PQsendPrepare(pq, exchange->name, exchange->sql, params->count, params->types) == 1;
    case PREPARED:
        return PQsendQueryPrepared(pq, exchange->name, params->count, params->values,
                                   params->lengths, params->formats, 1) == 1;
    case PLAIN:
    case WRAPPED:
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
           (PQresultErrorField(error, PG_DIAG_SQLSTATE) == NULL || is_fatal(error));
}

/* The answer to BEGIN, to COMMIT, or (number not NULL) to the number. */
static enum dlock_status read_around(struct pg_connection *conn, const int64_t *number,
                                     struct answer *answer)
{
    struct answer around = {NULL, answer->error};
    const enum dlock_status status = answer_read(conn, &around);

    answer->error = around.error;
    if (number != NULL && status == DLOCK_OK && !is_end(answer->error)) {
        conn->proven = is_number(around.rows, *number);
        conn->stray = !conn->proven;
    }
    PQclear(around.rows);
    return status;
}

/* Each answer has a NULL after it, and the sync comes last. */
static enum dlock_status read_group(struct pg_connection *conn, const struct exchange *exchange,
                                    struct answer *answer)
{
    const bool wraps = exchange->how == WRAPPED;
    enum dlock_status status = DLOCK_OK;

    if (wraps)
        status = read_around(conn, NULL, answer);
    if (status == DLOCK_OK && exchange->proves)
        status = read_around(conn, &exchange->number, answer);
    if (status == DLOCK_OK && !conn->stray)
        status = answer_read(conn, answer);
    if (status == DLOCK_OK && !conn->stray && wraps)
        status = read_around(conn, NULL, answer);
    if (status == DLOCK_OK && !conn->stray)
        status = answer_sync(conn, answer);
    conn->dead |= status != DLOCK_OK || conn->stray || PQexitPipelineMode(conn->pq) == 0;
    return status;
}

/*
 * Sends what the library has kept, and reads the answer to the end of the exchange. Where it
 * proves: sets conn->proven if the number came back, and conn->stray if anything else did; then the
 * rest is not read. conn->dead: the pipeline has not ended.
 */
static enum dlock_status exchange_read(struct pg_connection *conn, const struct exchange *exchange,
                                       struct answer *answer)
{
    enum dlock_status status = flush(conn);

    if (status != DLOCK_OK)
        return status;
    return is_group(exchange) ? read_group(conn, exchange, answer) : answer_read(conn, answer);
}

/* ---- queries ---- */

static const struct exchange plain = {.how = PLAIN};

/* Ends a transaction that an error has left open. */
static void roll_back(struct pg_connection *conn)
{
    struct answer answer = {NULL, NULL};

    if (conn->dead || PQtransactionStatus(conn->pq) == PQTRANS_IDLE)
        return;
    if (PQsendQuery(conn->pq, "ROLLBACK") != 1 ||
        exchange_read(conn, &plain, &answer) != DLOCK_OK ||
        PQtransactionStatus(conn->pq) != PQTRANS_IDLE)
        conn->dead = true;
    answer_free(&answer);
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
    const bool fatal = state == NULL || is_fatal(error);
    enum dlock_status status = pg_connection_error_status(state, fatal);

    conn->dead |= fatal || PQstatus(conn->pq) != CONNECTION_OK;
    if (status == DLOCK_CONFIG)
        atomic_store(&conn->shared->checked_ns, 0);
    /* A pooler's server may have got other defaults from another client. */
    if (pg_connection_error_code(state) == pg_connection_error_code("40001") ||
        pg_connection_error_code(state) == pg_connection_error_code("25006"))
        conn->isolate = true;
    return said(conn, error, status, pg_connection_error_code(state), err);
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
                                 struct answer *answer, PGresult **result, struct dlock_error *err)
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
    const struct exchange exchange = {.how = PREPARED, .name = name, .params = params};

    return exchange_send(pq, &exchange);
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
static bool needs_proof(const struct pg_connection *conn, enum exchange_how how)
{
    if (how != PLAIN && how != WRAPPED)
        return false;
    return !conn->proven ||
           (conn->pooled && (conn->config->strategy != PG_SESSION ||
                             atomic_load(&conn->shared->pooler) != PG_POOLER_SESSION));
}

static enum dlock_status exchange_prepare(struct pg_connection *conn, struct exchange *exchange,
                                          struct dlock_error *err)
{
    enum dlock_status status = check(conn, err);

    exchange->proves = needs_proof(conn, exchange->how);
    if (status == DLOCK_OK && exchange->proves &&
        conn->host->random(conn->host->ctx, &exchange->number, sizeof exchange->number) != 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_INTERNAL, 0, "no random bytes");
    return status;
}

static enum dlock_status run(struct pg_connection *conn, struct exchange exchange,
                             PGresult **result, struct dlock_error *err)
{
    struct answer answer = {NULL, NULL};
    enum dlock_status status = exchange_prepare(conn, &exchange, err);

    *result = NULL;
    if (status != DLOCK_OK)
        return status;
    if (!exchange_send(conn->pq, &exchange))
        return not_sent(conn, err);
    status = exchange_read(conn, &exchange, &answer);
    status = outcome(conn, status, &answer, result, err);
    answer_free(&answer);
    roll_back(conn);
    return status;
}

enum dlock_status pg_query(struct pg_connection *conn, const char *sql,
                           const struct pg_params *params, PGresult **result,
                           struct dlock_error *err)
{
    const enum exchange_how how = conn->isolate ? WRAPPED : PLAIN;

    return run(conn, (struct exchange){.how = how, .sql = sql, .params = params}, result, err);
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
    return undone(
        run(conn, (struct exchange){.how = PLAIN, .sql = sql, .params = params}, result, err), err);
}

enum dlock_status pg_query_ping(struct pg_connection *conn, const char *sql,
                                const struct pg_params *params, PGresult **result,
                                struct dlock_error *err)
{
    struct answer answer = {NULL, NULL};
    enum dlock_status status = pg_query_catch_up(conn, err);

    *result = NULL;
    if (status == DLOCK_OK)
        status = check(conn, err);
    if (status != DLOCK_OK)
        return status;
    if (!exchange_send(conn->pq, &(struct exchange){.sql = sql, .params = params}))
        return not_sent(conn, err);
    status = exchange_read(conn, &plain, &answer);
    if (status == DLOCK_TIMEOUT)
        status = outstanding(conn, err);
    else
        status = outcome(conn, status, &answer, result, err);
    answer_free(&answer);
    return status;
}

/* The rows may have been read before. */
enum dlock_status pg_query_catch_up(struct pg_connection *conn, struct dlock_error *err)
{
    struct answer answer = {NULL, NULL};
    PGresult *ignored = NULL;
    enum dlock_status status = DLOCK_OK;

    if (!conn->outstanding)
        return DLOCK_OK;
    status = exchange_read(conn, &plain, &answer);
    if (status == DLOCK_TIMEOUT) {
        status = outstanding(conn, err);
    } else {
        conn->outstanding = false;
        if (status != DLOCK_OK || answer.error != NULL || conn->dead ||
            PQstatus(conn->pq) != CONNECTION_OK)
            status = outcome(conn, status, &answer, &ignored, err);
    }
    PQclear(ignored);
    answer_free(&answer);
    return status;
}

enum dlock_status pg_query_prepare(struct pg_connection *conn, const char *name, const char *sql,
                                   const struct pg_params *params, struct dlock_error *err)
{
    PGresult *ignored = NULL;
    const struct exchange exchange = {.how = PREPARE, .name = name, .sql = sql, .params = params};
    enum dlock_status status = run(conn, exchange, &ignored, err);

    PQclear(ignored);
    return undone(status, err);
}

enum dlock_status pg_query_prepared(struct pg_connection *conn, const char *name,
                                    const struct pg_params *params, PGresult **result,
                                    struct dlock_error *err)
{
    return run(conn, (struct exchange){.how = PREPARED, .name = name, .params = params}, result,
               err);
}

/* The second of a pair, after the answer to the first. */
static bool read_second(struct pg_connection *conn)
{
    struct answer answer = {NULL, NULL};
    bool done = false;

    conn->deadline_ns = pg_connection_extend(conn, conn->deadline_ns);
    conn->dead |= answer_read(conn, &answer) != DLOCK_OK ||
                  answer_sync(conn, &answer) != DLOCK_OK || PQexitPipelineMode(conn->pq) == 0;
    done = !conn->dead && answer.error == NULL && answer.rows != NULL;
    answer_free(&answer);
    return done;
}

enum dlock_status pg_query_prepared_pair(struct pg_connection *conn, const char *const names[2],
                                         const struct pg_params *const params[2], PGresult **result,
                                         bool *second, struct dlock_error *err)
{
    struct answer answer = {NULL, NULL};
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
    status = exchange_read(conn, &plain, &answer);
    if (status == DLOCK_OK)
        status = answer_sync(conn, &answer);
    status = outcome(conn, status, &answer, result, err);
    answer_free(&answer);
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
        run(conn, (struct exchange){.how = SCRIPT, .sql = text}, &ignored, err);

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
