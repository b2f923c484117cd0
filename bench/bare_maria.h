/* SPDX-License-Identifier: MIT */
/* bare_maria.h - libmariadb with as little code around it as possible. */
#ifndef BENCH_BARE_MARIA_H
#define BENCH_BARE_MARIA_H

#include "address.h"

#include <mysql.h>

/* NULL: why says the reason. */
MYSQL *bench_maria_connect(const struct bench_address *address, char *why);

/* Sets why; returns -1. */
int bench_maria_failed(MYSQL *maria, char *why);

/* Runs a statement in text form and drops its result. 0, or -1 and why. */
int bench_maria_do(MYSQL *maria, const char *text, char *why);

/* A prepared statement, with texts for its question marks, which are borrowed. Its result is the
 * number 1, or it changes one row. */
struct bench_statement {
    MYSQL_STMT *statement;
    long long number;
};

int bench_statement_open(struct bench_statement *statement, MYSQL *maria, const char *text,
                         const char *const *texts, char *why);
int bench_statement_run(struct bench_statement *statement, char *why);
/* Accepts a zeroed statement, too. */
void bench_statement_close(struct bench_statement *statement);

#endif
