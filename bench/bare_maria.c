/* SPDX-License-Identifier: MIT */
#include "bare_maria.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TEXTS_MAX 4

int bench_maria_failed(MYSQL *maria, char *why)
{
    (void)snprintf(why, BENCH_WHY_SIZE, "MariaDB: %.200s",
                   maria != NULL ? mysql_error(maria) : "no memory");
    return -1;
}

MYSQL *bench_maria_connect(const struct bench_address *address, char *why)
{
    MYSQL *maria = mysql_init(NULL);
    const char *socket = address->socket[0] != '\0' ? address->socket : NULL;
    unsigned protocol = socket != NULL ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;

    if (maria != NULL && mysql_options(maria, MYSQL_OPT_PROTOCOL, &protocol) == 0 &&
        mysql_real_connect(maria, socket != NULL ? NULL : address->host[0].name, address->user,
                           address->password, address->database, (unsigned)address->host[0].port,
                           socket, 0) != NULL)
        return maria;
    (void)bench_maria_failed(maria, why);
    mysql_close(maria);
    return NULL;
}

int bench_maria_do(MYSQL *maria, const char *text, char *why)
{
    if (mysql_real_query(maria, text, strlen(text)) != 0)
        return bench_maria_failed(maria, why);
    mysql_free_result(mysql_store_result(maria));
    return 0;
}

static int failed(struct bench_statement *statement, char *why)
{
    (void)snprintf(why, BENCH_WHY_SIZE, "MariaDB: %.200s",
                   statement->statement != NULL ? mysql_stmt_error(statement->statement)
                                                : "no memory");
    return -1;
}

int bench_statement_open(struct bench_statement *statement, MYSQL *maria, const char *text,
                         const char *const *texts, char *why)
{
    MYSQL_BIND in[TEXTS_MAX] = {0}, out = {0};
    unsigned long wanted = 0;

    statement->statement = mysql_stmt_init(maria);
    if (statement->statement == NULL ||
        mysql_stmt_prepare(statement->statement, text, strlen(text)) != 0)
        return failed(statement, why);
    wanted = mysql_stmt_param_count(statement->statement);
    for (unsigned long i = 0; i < wanted && i < TEXTS_MAX; i++) {
        in[i].buffer_type = MYSQL_TYPE_STRING;
        in[i].buffer = (void *)(uintptr_t)texts[i];
        in[i].buffer_length = strlen(texts[i]);
    }
    if (wanted != 0 && mysql_stmt_bind_param(statement->statement, in) != 0)
        return failed(statement, why);
    out.buffer_type = MYSQL_TYPE_LONGLONG;
    out.buffer = &statement->number;
    if (mysql_stmt_field_count(statement->statement) != 0 &&
        mysql_stmt_bind_result(statement->statement, &out) != 0)
        return failed(statement, why);
    return 0;
}

int bench_statement_run(struct bench_statement *statement, char *why)
{
    MYSQL_STMT *it = statement->statement;

    if (mysql_stmt_execute(it) != 0)
        return failed(statement, why);
    if (mysql_stmt_field_count(it) == 0) {
        if (mysql_stmt_param_count(it) == 0 || mysql_stmt_affected_rows(it) == 1)
            return 0;
        (void)snprintf(why, BENCH_WHY_SIZE, "MariaDB: no row was changed");
        return -1;
    }
    statement->number = 0;
    if (mysql_stmt_store_result(it) != 0 || mysql_stmt_fetch(it) != 0)
        return failed(statement, why);
    (void)mysql_stmt_free_result(it);
    if (statement->number == 1)
        return 0;
    (void)snprintf(why, BENCH_WHY_SIZE, "MariaDB: %lld instead of 1", statement->number);
    return -1;
}

void bench_statement_close(struct bench_statement *statement)
{
    if (statement->statement != NULL)
        (void)mysql_stmt_close(statement->statement);
}
