/* SPDX-License-Identifier: MIT */
/* bare_maria.h - libmariadb with as little around it as will do. */
#ifndef BENCH_BARE_MARIA_H
#define BENCH_BARE_MARIA_H

#include "address.h"

#include <mysql.h>

/* NULL: why. */
MYSQL *bench_maria_dial(const struct bench_address *address, char *why);

/* -1 and why, always. */
int bench_maria_failed(MYSQL *maria, char *why);

/* A statement in text form, whose result is thrown away. 0, or -1 and why. */
int bench_maria_do(MYSQL *maria, const char *text, char *why);

/* A prepared statement, with texts for its question marks; they stay where they are. If it has a
 * result, that is the number 1; if it changes rows, one of them. */
struct bench_statement {
    MYSQL_STMT *statement;
    long long number;
};

int bench_statement_open(struct bench_statement *statement, MYSQL *maria, const char *text,
                         const char *const *texts, char *why);
int bench_statement_run(struct bench_statement *statement, char *why);
/* Also one that was never opened, if it is all zeroes. */
void bench_statement_close(struct bench_statement *statement);

#endif
