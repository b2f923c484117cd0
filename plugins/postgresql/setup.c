/* SPDX-License-Identifier: MIT */
/*
 * A session must not depend on the defaults of the server, the database or the role. Behind a
 * pooler that lends a server to each transaction a setting would stay with that server, for other
 * clients: there nothing is set, and each call says what it needs.
 */
#include "setup.h"

#include "query.h"

#include <string.h>

/* $1: the process that the library was told at the start; $2: set in spite of a pooler; $3:
 * idle_session_timeout; $4: client_connection_check_interval, or null. A pooler shows another
 * process than that of its server. */
#define MAY                 "pg_backend_pid() = $1 OR $2 <> 0"
#define READ(name)          "current_setting('" name "')"
#define SET(name, value)    "set_config('" name "', " value ", false)"
#define ENSURE(name, value) "CASE WHEN " MAY " THEN " SET(name, value) " ELSE " READ(name) " END, "

/* The columns of its answer. */
enum { IS_SERVER, IS_STANDBY, FLUSHES, ISOLATION, READ_ONLY, COLUMNS };

static const char text[] =
    "SELECT pg_backend_pid() = $1, pg_is_in_recovery(), "
    "current_setting('fsync') = 'on', x.isolation, x.read_only FROM "
    "(SELECT " ENSURE("statement_timeout", "'0'") ENSURE("lock_timeout", "'0'")
        ENSURE("idle_in_transaction_session_timeout", "'5s'") ENSURE("idle_session_timeout", "$3")
            ENSURE("client_min_messages", "'warning'")
                ENSURE("client_connection_check_interval",
                       "coalesce($4, "
                       "current_setting('client_connection_check_interval')"
                       ")") "CASE WHEN (" MAY ") AND current_setting('transaction_timeout', "
                            "true) IS NOT NULL"
                            " THEN set_config('transaction_timeout', '0', "
                            "false) END, "
                            "CASE WHEN " MAY " THEN "
                            "set_config('default_transaction_isolation', "
                            "'read committed', false)"
                            " ELSE current_setting('transaction_isolation') "
                            "END AS isolation, "
                            "CASE WHEN " MAY " THEN "
                            "set_config('default_transaction_read_only', "
                            "'off', false)"
                            " ELSE current_setting('transaction_read_only') "
                            "END AS read_only) AS x";

static enum dlock_status version_check(struct pg_connection *conn, struct dlock_error *err)
{
    const int version = PQserverVersion(conn->pq);

    (void)snprintf(conn->server, sizeof conn->server, "PostgreSQL %d.%d", version / 10000,
                   version % 10000);
    if (version >= PG_SETUP_VERSION_LEAST)
        return DLOCK_OK;
    return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0, "%s: want PostgreSQL 14 or later, not %s",
                      conn->config->endpoint, conn->server);
}

static bool is_word(const PGresult *result, int column, const char *word)
{
    const char *value = pg_query_text(result, 0, column);

    return value != NULL && strcmp(value, word) == 0;
}

static enum dlock_status answer_take(struct pg_connection *conn, const PGresult *result,
                                     struct dlock_error *err)
{
    conn->pooled = pg_query_number(result, 0, IS_SERVER) == 0;
    conn->flushes = pg_query_number(result, 0, FLUSHES) != 0;
    conn->isolate = (!is_word(result, ISOLATION, "read committed") &&
                     !is_word(result, ISOLATION, "read uncommitted")) ||
                    !is_word(result, READ_ONLY, "off");
    if (pg_query_number(result, 0, IS_STANDBY) == 0)
        return DLOCK_OK;
    return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, pg_errmap_code("25006"),
                      "%s: the server is a standby, which cannot keep locks",
                      conn->config->endpoint);
}

enum dlock_status pg_setup(struct pg_connection *conn, struct dlock_error *err)
{
    const bool is_session = conn->config->strategy == PG_SESSION && !conn->for_messages;
    const int64_t idle_ms = is_session ? conn->config->grace_ms : 0;
    struct pg_params params = {.count = 0};
    PGresult *result = NULL;
    char idle[24];
    enum dlock_status status = version_check(conn, err);

    if (status != DLOCK_OK)
        return status;
    (void)snprintf(idle, sizeof idle, "%lld", (long long)idle_ms);
    pg_params_number(&params, PQbackendPID(conn->pq));
    pg_params_number(&params, atomic_load(&conn->shared->pooler) == PG_POOLER_SESSION);
    pg_params_text(&params, idle);
    pg_params_text(&params, is_session ? "100ms" : NULL);
    status = pg_query_read(conn, text, &params, &result, err);
    if (status == DLOCK_OK)
        status = pg_query_expect(conn, &result, COLUMNS, 1, err);
    if (status == DLOCK_OK)
        status = answer_take(conn, result, err);
    PQclear(result);
    return status;
}
