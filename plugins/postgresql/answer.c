/* SPDX-License-Identifier: MIT */
#include "answer.h"

#include <poll.h>
#include <string.h>

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

static void add(struct pg_answer *answer, PGresult *result)
{
    if (is_rows(result) && answer->rows == NULL)
        answer->rows = result;
    else if (PQresultStatus(result) == PGRES_FATAL_ERROR && answer->error == NULL)
        answer->error = result;
    else
        PQclear(result);
}

enum dlock_status pg_answer_read(struct pg_connection *conn, struct pg_answer *answer)
{
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    while ((status = next(conn, &result)) == DLOCK_OK && result != NULL) {
        const bool copies = is_copy(result);

        add(answer, result);
        if (!copies)
            continue;
        conn->dead = true; /* no statement of ours copies, and the library waits for ever */
        return DLOCK_OK;
    }
    return status;
}

enum dlock_status pg_answer_sync(struct pg_connection *conn, struct pg_answer *answer)
{
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_OK;
    ExecStatusType kind = PGRES_FATAL_ERROR;

    for (int i = 0; i < 3 && status == DLOCK_OK && !conn->dead && kind != PGRES_PIPELINE_SYNC;
         i++) {
        status = next(conn, &result); /* an error has a NULL after it */
        kind = PQresultStatus(result);
        if (kind == PGRES_FATAL_ERROR && result != NULL)
            add(answer, result);
        else
            PQclear(result);
    }
    conn->dead |= status == DLOCK_OK && kind != PGRES_PIPELINE_SYNC;
    return status;
}

bool pg_answer_is_fatal(const PGresult *error)
{
    const char *severity = PQresultErrorField(error, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (severity == NULL)
        severity = PQresultErrorField(error, PG_DIAG_SEVERITY); /* pgbouncer has this one only */
    return severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

void pg_answer_free(struct pg_answer *answer)
{
    PQclear(answer->rows);
    PQclear(answer->error);
    *answer = (struct pg_answer){NULL, NULL};
}
