/* SPDX-License-Identifier: MIT */
#include "bare_postgresql.h"

#include <stdio.h>
#include <string.h>

int bench_postgresql_failed(const PGconn *conn, char *why)
{
    (void)snprintf(why, BENCH_WHY_SIZE, "PostgreSQL: %.200s",
                   conn != NULL ? PQerrorMessage(conn) : "no memory");
    return -1;
}

/* "/directory/.s.PGSQL.5433" as the directory and "5433". */
static void socket_split(const char *socket, char *directory, size_t size, char *port,
                         size_t port_size)
{
    const char *file = strstr(socket, "/.s.PGSQL.");

    (void)snprintf(directory, size, "%.*s",
                   file != NULL ? (int)(file - socket) : (int)strlen(socket), socket);
    (void)snprintf(port, port_size, "%s", file != NULL ? file + strlen("/.s.PGSQL.") : "5432");
}

PGconn *bench_postgresql_connect(const struct bench_address *address, char *why)
{
    char host[256], port[16];
    const char *const keys[] = {"host", "port", "user", "password", "dbname", "gssencmode", NULL};
    const char *const values[] = {
        host, port, address->user, address->password, address->database, "disable", NULL};
    PGconn *conn = NULL;

    if (address->socket[0] != '\0') {
        socket_split(address->socket, host, sizeof host, port, sizeof port);
    } else {
        (void)snprintf(host, sizeof host, "%s", address->host[0].name);
        (void)snprintf(port, sizeof port, "%d", address->host[0].port);
    }
    conn = PQconnectdbParams(keys, values, 0);
    if (conn != NULL && PQstatus(conn) == CONNECTION_OK)
        return conn;
    (void)bench_postgresql_failed(conn, why);
    PQfinish(conn);
    return NULL;
}

int bench_postgresql_do(PGconn *conn, const char *text, char *why)
{
    PGresult *result = PQexec(conn, text);
    ExecStatusType status = PQresultStatus(result);

    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
               ? 0
               : bench_postgresql_failed(conn, why);
}

int bench_postgresql_prepare(PGconn *conn, const char *name, const char *text, char *why)
{
    PGresult *result = PQprepare(conn, name, text, 0, NULL);
    ExecStatusType status = PQresultStatus(result);

    PQclear(result);
    return status == PGRES_COMMAND_OK ? 0 : bench_postgresql_failed(conn, why);
}

int bench_postgresql_right(PGconn *conn, PGresult *result, char *value, size_t size, char *why)
{
    static const char *const wrong[] = {"0", "f", "-1"};
    ExecStatusType status = PQresultStatus(result);
    const char *text = PQcmdTuples(result);
    int good = 0;

    if (status == PGRES_TUPLES_OK)
        text =
            PQntuples(result) == 1 && !PQgetisnull(result, 0, 0) ? PQgetvalue(result, 0, 0) : "0";
    good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    for (size_t i = 0; good && i < sizeof wrong / sizeof wrong[0]; i++)
        if (strcmp(text, wrong[i]) == 0) {
            (void)snprintf(why, BENCH_WHY_SIZE, "PostgreSQL: it answered %s", text);
            PQclear(result);
            return -1;
        }
    if (good && value != NULL)
        (void)snprintf(value, size, "%s", text);
    PQclear(result);
    return good ? 0 : bench_postgresql_failed(conn, why);
}
