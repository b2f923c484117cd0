/* SPDX-License-Identifier: MIT */
/* answer.h - reads what the server answers to a statement, until conn->deadline_ns. */
#ifndef PG_ANSWER_H
#define PG_ANSWER_H

#include "connection.h"

/* The rows of a statement, and the first error. NULL: there is none. */
struct pg_answer {
    PGresult *rows, *error;
};

/* Reads the answer to one statement, to its end. TIMEOUT and CANCELED: it has not ended. A copy
 * sets conn->dead. The rows and the error of *answer that are there already stay. */
enum dlock_status pg_answer_read(struct pg_connection *conn, struct pg_answer *answer);

/* Reads the end of a pipeline. An error of the commit that the end makes counts. Anything else than
 * an end sets conn->dead. */
enum dlock_status pg_answer_sync(struct pg_connection *conn, struct pg_answer *answer);

/* Whether this error ends the session. */
bool pg_answer_is_fatal(const PGresult *error);

void pg_answer_free(struct pg_answer *answer);

#endif
