/* SPDX-License-Identifier: MIT */
/*
 * A session must not depend on the defaults of the server, the database or the role. Behind a
 * pooler that lends a server to each transaction a setting would stay with that server, for other
 * clients: there nothing is set, and each call says what it needs.
 */
#include "open.h"

#include "connect.h"
#include "pooler.h"
#include "query.h"
#include "schema.h"
#include "statements.h"

#include <string.h>

#define VERSION_LEAST 140000

enum strategies { BOTH, ROW, SESSION };

struct setting {
    const char *name, *value;
    enum strategies of;
};

#define TEXT(number)      #number
#define TEXT_OF(number)   TEXT(number)
#define PG_SETUP_PATIENCE TEXT_OF(PG_STATEMENTS_PATIENCE_MS)

/* A setting that the server's version does not know is left out. */
static const struct setting settings[] = {
    {"default_transaction_isolation", "read committed", BOTH},
    {"default_transaction_read_only", "off", BOTH},
    {"statement_timeout", "0", BOTH},
    {"lock_timeout", "0", SESSION},
    {"lock_timeout", PG_SETUP_PATIENCE, ROW},
    {"transaction_timeout", "0", BOTH},
    {"idle_in_transaction_session_timeout", "5s", BOTH}, /* a client that was stopped */
    {"idle_session_timeout", "0", BOTH},
    {"client_min_messages", "warning", BOTH},
    {"enable_seqscan", "off", BOTH}, /* row.sql says why */
    {"search_path", PG_QUERY_SEARCH_PATH, BOTH},
    /* The server notices that a waiting client has gone. */
    {"client_connection_check_interval", "100ms", SESSION},
};

#define SETTINGS (sizeof settings / sizeof settings[0])

/* The columns of the answer; the settings follow. */
enum { IS_DIRECT, IS_STANDBY, FLUSHES, ISOLATION, READ_ONLY };
#define COLUMNS (ISOLATION + (int)SETTINGS)

#define IS_OURS "pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) $1"

/* It sets the search_path by which the statements after it find their names: its own names are
 * whole. $1: the process that the library was told at the start: a pooler shows another one than
 * that of its server. $2: set in spite of a pooler. $3: for strategy session. */
static void text_make(char *text, size_t size)
{
    static const char *const conditions[] = {[BOTH] = "",
                                             [ROW] = " AND $3 OPERATOR(pg_catalog.=) 0",
                                             [SESSION] = " AND $3 OPERATOR(pg_catalog.<>) 0"};
    int len = snprintf(text, size,
                       "SELECT " IS_OURS ", pg_catalog.pg_is_in_recovery(), "
                       "pg_catalog.current_setting('fsync') OPERATOR(pg_catalog.=) 'on'");

    for (size_t i = 0; i < SETTINGS && len >= 0 && (size_t)len < size; i++)
        len += snprintf(text + len, size - (size_t)len,
                        ", CASE WHEN (" IS_OURS " OR $2 OPERATOR(pg_catalog.<>) 0)%s AND "
                        "pg_catalog.current_setting('%s', true) IS NOT NULL "
                        "THEN pg_catalog.set_config('%s', '%s', false) "
                        "ELSE pg_catalog.current_setting('%s', true) END",
                        conditions[settings[i].of], settings[i].name, settings[i].name,
                        settings[i].value, settings[i].name);
}

static enum dlock_status version_check(struct pg_connection *conn, struct dlock_error *err)
{
    const int version = PQserverVersion(conn->pq);

    (void)snprintf(conn->server, sizeof conn->server, "PostgreSQL %d.%d", version / 10000,
                   version % 10000);
    if (version >= VERSION_LEAST)
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
    conn->pooled = pg_query_number(result, 0, IS_DIRECT) == 0;
    conn->flushes = pg_query_number(result, 0, FLUSHES) != 0;
    conn->isolate = (!is_word(result, ISOLATION, "read committed") &&
                     !is_word(result, ISOLATION, "read uncommitted")) ||
                    !is_word(result, READ_ONLY, "off");
    if (pg_query_number(result, 0, IS_STANDBY) == 0)
        return DLOCK_OK;
    return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, pg_connection_error_code("25006"),
                      "%s: the server is a standby, which cannot keep locks",
                      conn->config->endpoint);
}

enum dlock_status pg_open_setup(struct pg_connection *conn, struct dlock_error *err)
{
    const bool is_session = conn->config->strategy == PG_SESSION && !conn->for_messages;
    struct pg_params params = {.count = 0};
    PGresult *result = NULL;
    char text[4096];
    enum dlock_status status = version_check(conn, err);

    if (status != DLOCK_OK)
        return status;
    pg_params_number(&params, PQbackendPID(conn->pq));
    pg_params_number(&params, atomic_load(&conn->shared->pooler) == PG_POOLER_SESSION);
    pg_params_number(&params, is_session);
    text_make(text, sizeof text);
    status = pg_query_read(conn, text, &params, &result, err);
    if (status == DLOCK_OK)
        status = pg_query_expect(conn, &result, COLUMNS, 1, err);
    if (status == DLOCK_OK)
        status = answer_take(conn, result, err);
    PQclear(result);
    return status;
}

/* An advisory lock belongs to a session of the server. */
static enum dlock_status pooler_check(struct pg_connection *conn, struct dlock_error *err)
{
    enum pg_pooler pooler = PG_POOLER_UNKNOWN;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!conn->pooled || conn->for_messages || conn->config->strategy != PG_SESSION)
        return DLOCK_OK;
    status = pg_pooler_find(conn, conn->deadline_ns, &pooler, err);
    if (status != DLOCK_OK)
        return status;
    if (pooler != PG_POOLER_TRANSACTION)
        return pg_open_setup(conn, err); /* now it may set what it needs */
    return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: a pooler lends its sessions to transactions, and would give one lock to "
                      "two clients: connect to the server itself, or use strategy=row",
                      conn->config->endpoint);
}

/* A session of a pooler that had answers for another client has none left after the first try. */
#define TRIES 5

static enum dlock_status connect_and_set_up(struct pg_connection *conn, struct dlock_error *err)
{
    int left = TRIES;
    enum dlock_status status = DLOCK_INTERNAL;

    do {
        spin_init(&conn->spin, conn->config->spin && !conn->for_messages ? spin_processors() : 0);
        status = pg_connect(conn, err);
        if (status == DLOCK_OK)
            status = pg_open_setup(conn, err);
    } while (status == DLOCK_UNAVAILABLE && --left > 0 && pg_connect_again(conn));
    return status;
}

enum dlock_status pg_open(struct pg_connection *conn, int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = deadline_ns;
    status = connect_and_set_up(conn, err);
    if (status == DLOCK_OK)
        status = pooler_check(conn, err);
    if (status == DLOCK_OK && !conn->for_messages &&
        !pg_shared_is_checked(conn->shared, pg_connection_now(conn)))
        status = pg_schema_open(conn, err);
    return status;
}
