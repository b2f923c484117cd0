/* SPDX-License-Identifier: MIT */
/* exchange.h - one statement of a caller, sent and answered: with what goes around it. */
#ifndef PG_EXCHANGE_H
#define PG_EXCHANGE_H

#include "answer.h"
#include "params.h"

/* By which every statement of ours finds its names: set for the session (setup.c), or, with the
 * number that proves, for the exchange. */
#define PG_SEARCH_PATH "pg_catalog, pg_temp"

enum pg_exchange_how {
    PG_EXCHANGE_PLAIN,
    PG_EXCHANGE_SCRIPT,   /* several statements without parameters */
    PG_EXCHANGE_WRAPPED,  /* in a transaction that says what it needs */
    PG_EXCHANGE_PREPARE,  /* under a name; it does not run */
    PG_EXCHANGE_PREPARED, /* by its name */
};

struct pg_exchange {
    enum pg_exchange_how how;
    const char *name; /* of PREPARE and PREPARED */
    const char *sql;
    const struct pg_params *params; /* NULL: none */
    bool proves;                    /* PLAIN and WRAPPED: the number comes back before the answer */
    int64_t number;
};

/* False: it was not sent; PQerrorMessage says why. The library may keep a part of it for
 * pg_exchange_read. */
bool pg_exchange_send(PGconn *pq, const struct pg_exchange *exchange);

/*
 * Sends what the library has kept, and reads the answer to the end of the exchange. TIMEOUT and
 * CANCELED: as pg_answer_read. Where it proves: sets conn->proven if the number came back, and
 * conn->stray if anything else did; then the rest is not read. conn->dead: the pipeline has not
 * ended.
 */
enum dlock_status pg_exchange_read(struct pg_connection *conn, const struct pg_exchange *exchange,
                                   struct pg_answer *answer);

#endif
