/* SPDX-License-Identifier: MIT */
#include "query.h"

#include <endian.h>
#include <poll.h>
#include <string.h>

static const struct pg_params no_params;

/* How a statement is sent. */
enum how {
    PLAIN,
    SCRIPT,   /* several statements without parameters */
    WRAPPED,  /* in a transaction that says what it needs */
    PREPARE,  /* under a name; it does not run */
    PREPARED, /* by its name */
};

static bool send_one(PGconn *pq, const char *sql, const struct pg_params *params)
{
    return PQsendQueryParams(pq, sql, params->count, params->types, params->values, params->lengths,
                             params->formats, 1) == 1;
}

static bool send_wrapped(PGconn *pq, const char *sql, const struct pg_params *params)
{
    return PQenterPipelineMode(pq) == 1 &&
           send_one(pq, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", &no_params) &&
           send_one(pq, sql, params) && send_one(pq, "COMMIT", &no_params) &&
           PQpipelineSync(pq) == 1;
}

static bool send_prepared(PGconn *pq, const char *name, const struct pg_params *params)
{
    return PQsendQueryPrepared(pq, name, params->count, params->values, params->lengths,
                               params->formats, 1) == 1;
}

/* name: for PREPARE and PREPARED. */
static bool send_as(PGconn *pq, enum how how, const char *name, const char *sql,
                    const struct pg_params *params)
{
    switch (how) {
    case SCRIPT:
        return PQsendQuery(pq, sql) == 1;
    case WRAPPED:
        return send_wrapped(pq, sql, params);
    case PREPARE:
        return PQsendPrepare(pq, name, sql, params->count, params->types) == 1;
    case PREPARED:
        return send_prepared(pq, name, params);
    case PLAIN:
        break;
    }
    return send_one(pq, sql, params);
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

/* What is read after the deadline, when bytes have arrived already. */
#define OVERDUE_READS 16

/* The next result. *result NULL: there is none. */
static enum dlock_status next(struct pg_connection *conn, PGresult **result)
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

/* What the exchange has brought: rows of the statement, and the first error. */
struct answer {
    PGresult *rows, *error;
};

static void answer_add(struct answer *answer, PGresult *result)
{
    if (is_rows(result) && answer->rows == NULL)
        answer->rows = result;
    else if (PQresultStatus(result) == PGRES_FATAL_ERROR && answer->error == NULL)
        answer->error = result;
    else
        PQclear(result);
}

/* Reads the answer to one statement, to its end: the commit comes after the rows. */
static enum dlock_status read_one(struct pg_connection *conn, struct answer *answer)
{
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    while ((status = next(conn, &result)) == DLOCK_OK && result != NULL) {
        const bool copies = is_copy(result);

        answer_add(answer, result);
        if (!copies)
            continue;
        conn->dead = true; /* no statement of ours copies, and the library waits for ever */
        return DLOCK_OK;
    }
    return status;
}

static enum dlock_status flush_and_read(struct pg_connection *conn, struct answer *answer)
{
    enum dlock_status status = flush(conn);

    return status == DLOCK_OK ? read_one(conn, answer) : status;
}

static enum dlock_status read_sync(struct pg_connection *conn)
{
    PGresult *result = NULL;
    enum dlock_status status = conn->dead ? DLOCK_OK : next(conn, &result);

    conn->dead |= status == DLOCK_OK && PQresultStatus(result) != PGRES_PIPELINE_SYNC;
    PQclear(result);
    return status;
}

/* The answers to BEGIN, the statement and COMMIT, each with a NULL after it, and to the sync. */
static enum dlock_status read_wrapped(struct pg_connection *conn, struct answer *answer)
{
    struct answer around = {NULL, NULL};
    enum dlock_status status = read_one(conn, &around);

    answer->error = around.error;
    if (status == DLOCK_OK)
        status = read_one(conn, answer);
    PQclear(around.rows);
    around = (struct answer){NULL, NULL};
    if (status == DLOCK_OK)
        status = read_one(conn, &around);
    if (answer->error == NULL)
        answer->error = around.error;
    else
        PQclear(around.error);
    PQclear(around.rows);
    if (status == DLOCK_OK)
        status = read_sync(conn);
    conn->dead |= status != DLOCK_OK || PQexitPipelineMode(conn->pq) == 0;
    return status;
}

static void answer_free(struct answer *answer)
{
    PQclear(answer->rows);
    PQclear(answer->error);
    *answer = (struct answer){NULL, NULL};
}

/* Ends a transaction that an error has left open. */
static void roll_back(struct pg_connection *conn)
{
    struct answer answer = {NULL, NULL};

    if (conn->dead || PQtransactionStatus(conn->pq) == PQTRANS_IDLE)
        return;
    if (PQsendQuery(conn->pq, "ROLLBACK") != 1 || flush_and_read(conn, &answer) != DLOCK_OK ||
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

static bool is_fatal(const PGresult *error)
{
    const char *severity = PQresultErrorField(error, PG_DIAG_SEVERITY_NONLOCALIZED);

    return severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

static enum dlock_status outstanding(struct pg_connection *conn, struct dlock_error *err)
{
    conn->outstanding = true;
    return dlock_fail(err, PG_ORIGIN, DLOCK_UNKNOWN, 0, "%s: no answer in time to a ping",
                      conn->config->endpoint);
}

/* The error of a statement that was sent. */
static enum dlock_status refused(struct pg_connection *conn, const PGresult *error,
                                 struct dlock_error *err)
{
    const char *state = PQresultErrorField(error, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY);
    const bool fatal = state == NULL || is_fatal(error);
    enum dlock_status status = pg_errmap_status(state, fatal);

    conn->dead |= fatal || PQstatus(conn->pq) != CONNECTION_OK;
    if (status == DLOCK_CONFIG)
        atomic_store(&conn->shared->checked_ns, 0);
    /* A pooler's server may have got other defaults from another client. */
    if (pg_errmap_code(state) == pg_errmap_code("40001") ||
        pg_errmap_code(state) == pg_errmap_code("25006"))
        conn->isolate = true;
    if (text == NULL)
        text = PQresultErrorMessage(error);
    return dlock_fail(err, PG_ORIGIN, status, pg_errmap_code(state), "%s: %.*s%s%s%s",
                      conn->config->endpoint, (int)strcspn(text, "\n"), text,
                      state != NULL ? " (" : "", state != NULL ? state : "",
                      state != NULL ? ")" : "");
}

/* The outcome of an exchange that has ended with `status`. */
static enum dlock_status outcome(struct pg_connection *conn, enum dlock_status status,
                                 struct answer *answer, PGresult **result, struct dlock_error *err)
{
    if (status != DLOCK_OK)
        return unanswered(conn, status, err);
    conn->answered_ns = pg_connection_now(conn);
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

static enum dlock_status run(struct pg_connection *conn, enum how how, const char *name,
                             const char *sql, const struct pg_params *params, PGresult **result,
                             struct dlock_error *err)
{
    struct answer answer = {NULL, NULL};
    enum dlock_status status = DLOCK_INTERNAL;

    *result = NULL;
    if (params == NULL)
        params = &no_params;
    status = check(conn, err);
    if (status != DLOCK_OK)
        return status;
    if (!send_as(conn->pq, how, name, sql, params))
        return not_sent(conn, err);
    status = flush(conn);
    if (status == DLOCK_OK)
        status = how == WRAPPED ? read_wrapped(conn, &answer) : read_one(conn, &answer);
    status = outcome(conn, status, &answer, result, err);
    answer_free(&answer);
    roll_back(conn);
    return status;
}

enum dlock_status pg_query(struct pg_connection *conn, const char *sql,
                           const struct pg_params *params, PGresult **result,
                           struct dlock_error *err)
{
    return run(conn, conn->isolate ? WRAPPED : PLAIN, NULL, sql, params, result, err);
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
    return undone(run(conn, PLAIN, NULL, sql, params, result, err), err);
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
    if (!send_one(conn->pq, sql, params))
        return not_sent(conn, err);
    status = flush_and_read(conn, &answer);
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
    status = flush_and_read(conn, &answer);
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
    enum dlock_status status = run(conn, PREPARE, name, sql, params, &ignored, err);

    PQclear(ignored);
    return undone(status, err);
}

enum dlock_status pg_query_prepared(struct pg_connection *conn, const char *name,
                                    const struct pg_params *params, PGresult **result,
                                    struct dlock_error *err)
{
    return run(conn, PREPARED, name, NULL, params, result, err);
}

/* The second of a pair, after the answer to the first. */
static bool read_second(struct pg_connection *conn)
{
    struct answer answer = {NULL, NULL};
    bool done = false;

    conn->deadline_ns = pg_connection_extend(conn, conn->deadline_ns);
    conn->dead |= read_one(conn, &answer) != DLOCK_OK || read_sync(conn) != DLOCK_OK ||
                  PQexitPipelineMode(conn->pq) == 0;
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
    status = flush_and_read(conn, &answer);
    if (status == DLOCK_OK)
        status = read_sync(conn);
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
    enum dlock_status status = run(conn, SCRIPT, NULL, text, NULL, &ignored, err);

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
