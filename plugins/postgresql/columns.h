/* SPDX-License-Identifier: MIT */
/*
 * columns.h - one value of each of many requests as one parameter: an array of the server, binary.
 */
#ifndef PG_COLUMNS_H
#define PG_COLUMNS_H

#include "params.h"

#include <dlock/plugin.h>
#include <stdbool.h>

/* The value, and the type of the array. */
enum pg_column {
    PG_COLUMN_NAME,      /* bytea[] */
    PG_COLUMN_TOKEN,     /* bytea[] */
    PG_COLUMN_TTL,       /* bigint[] */
    PG_COLUMN_SHARED,    /* boolean[] */
    PG_COLUMN_LIMIT,     /* bigint[], of a semaphore */
    PG_COLUMN_WHAT,      /* bigint[], enum pg_take */
    PG_COLUMN_TEXT,      /* bytea[], label and data */
    PG_COLUMN_KEEP,      /* bigint[], how long the name stays taken, in ms */
    PG_COLUMN_DOWNGRADE, /* boolean[] */
};

#define PG_COLUMNS_MAX 8

/* Zeroed at first. */
struct pg_columns {
    unsigned char *arrays[PG_COLUMNS_MAX];
    int count;
};

/* Appends a parameter, which borrows from *columns. n: at least 1. False: no memory. */
bool pg_columns_add(struct pg_columns *columns, struct pg_params *params, enum pg_column which,
                    const struct dlock_request *const *reqs, size_t n);

void pg_columns_free(struct pg_columns *columns);

#endif
