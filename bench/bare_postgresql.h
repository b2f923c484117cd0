/* SPDX-License-Identifier: MIT */
/* bare_postgresql.h - libpq with as little around it as will do. */
#ifndef BENCH_BARE_POSTGRESQL_H
#define BENCH_BARE_POSTGRESQL_H

#include "address.h"

#include <libpq-fe.h>

/* NULL: why. */
PGconn *bench_postgresql_connect(const struct bench_address *address, char *why);

/* -1 and why, always. NULL: no memory. */
int bench_postgresql_failed(const PGconn *conn, char *why);

/* Statements whose results are thrown away. 0, or -1 and why. */
int bench_postgresql_do(PGconn *conn, const char *text, char *why);

/* 0, or -1 and why. */
int bench_postgresql_prepare(PGconn *conn, const char *name, const char *text, char *why);

/* Takes the result of a statement and clears it. It has changed one row, or has one row whose first
 * value is not NULL, 0, false or -1; `value` gets a copy of that, unless it is NULL. 0, or -1 and
 * why. */
int bench_postgresql_right(PGconn *conn, PGresult *result, char *value, size_t size, char *why);

#endif
