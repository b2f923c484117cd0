/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include "query.h"
#include "schema.h"

#include <stdlib.h>
#include <string.h>

/* The capabilities that innodb_flush_log_at_trx_commit takes away. */
static uint32_t flush_costs(long flush)
{
    if (flush == 1)
        return 0;
    return DLOCK_CAP_FENCE_DURABLE | (flush == 0 ? DLOCK_CAP_CRASH_SAFE : 0u);
}

/* Commits share a write of the log already: a few at one time are enough. */
#define PARALLELISM 4

void my_probe_info(const struct my_connection *conn, struct dlock_session_info *info)
{
    info->caps = conn->config->strategy == MY_SESSION ? MY_SESSION_CAPS : MY_ROW_CAPS;
    if (!atomic_load(&conn->tables->has_permits))
        info->caps &= ~(DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP);
    if (!atomic_load(&conn->tables->has_data))
        info->caps &= ~DLOCK_CAP_DATA;
    info->caps &= ~flush_costs(conn->flush);
    info->parallelism = PARALLELISM;
    (void)snprintf(info->server, sizeof info->server, "%s", conn->server);
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", conn->config->endpoint);
}

/* A value of the server, and the advice about it. */
struct variable {
    const char *name;
    const char *text;
    const char *fine;   /* the value that needs no advice; NULL: any */
    const char *advice; /* for other values */
    uint64_t clears;
    const char *only; /* the server that has it: "MariaDB", "MySQL"; NULL: both */
};

static const struct variable variables[] = {
    {"version", "SELECT VERSION()", NULL, NULL, 0, NULL},
    {"read_only", "SELECT @@GLOBAL.read_only", "0", "nobody can take a lock here", 0, NULL},
    {"sync_binlog", "SELECT IF(@@GLOBAL.log_bin, @@GLOBAL.sync_binlog, 1)", "1",
     "a replica that is promoted after a crash may know less than this server did", 0, NULL},
    {"log_bin", "SELECT @@GLOBAL.log_bin", "0",
     "if replicas follow, none of them may take over while locks are held", 0, NULL},
    {"binlog_format", "SELECT IF(@@GLOBAL.log_bin, @@GLOBAL.binlog_format = 'STATEMENT', 0)", "0",
     "it is STATEMENT: no new connection can take a lock, unless the log leaves this database out; "
     "set it to ROW or MIXED",
     0, "MariaDB"},
    {"wsrep_on",
     "SELECT COUNT(*) FROM information_schema.global_variables WHERE variable_name = 'WSREP_ON'"
     " AND variable_value <> 'OFF'",
     "0", "a Galera node; all clients have to use this one", 0, "MariaDB"},
    {"performance_schema", "SELECT @@GLOBAL.performance_schema", "1",
     "without it nobody sees waiters, or holders of strategy session", 0, "MySQL"},
    {"time zone", "SELECT CONCAT(@@GLOBAL.time_zone, ', session ', @@SESSION.time_zone)", NULL,
     NULL, 0, NULL},
    {"clock", "SELECT UTC_TIMESTAMP(3)", NULL, NULL, 0, NULL},
    {"max_connections", "SELECT @@GLOBAL.max_connections", NULL, NULL, 0, NULL},
};

/* Advice on innodb_flush_log_at_trx_commit. */
#define NOT_SYNCED                                                                                 \
    "with 1 each lock and each fence reaches the disk before it is handed out; without, the last " \
    "second is lost with the power, and the clock alone keeps fences rising"
#define NOT_WRITTEN                                                                              \
    "set it to 1: with 0 the last second is lost when the server's process ends, and a lock of " \
    "that second can have two holders"

static enum dlock_status read_variable(struct my_connection *conn, const char *text, char *answer,
                                       size_t size, struct dlock_error *err)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    enum dlock_status status = my_query_select(conn, text, 1, &result, err);

    if (status != DLOCK_OK)
        return status;
    row = mysql_fetch_row(result);
    (void)snprintf(answer, size, "%s", row != NULL && row[0] != NULL ? row[0] : "not known");
    mysql_free_result(result);
    return DLOCK_OK;
}

static void report(dlock_check_fn *fn, void *arg, const struct variable *variable,
                   const char *found)
{
    const bool fine = variable->fine == NULL || strcmp(variable->fine, found) == 0;

    if (fn != NULL)
        fn(arg, &(struct dlock_check){
                    .struct_size = sizeof(struct dlock_check),
                    .name = variable->name,
                    .found = found,
                    .advice = fine ? NULL : variable->advice,
                    .clears = fine ? 0 : variable->clears,
                });
}

/* Updates conn->flush, too. */
static enum dlock_status report_flush(struct my_connection *conn, dlock_check_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    static const char text[] = "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit";
    struct variable variable = {.name = "innodb_flush_log_at_trx_commit", .fine = "1"};
    char found[32];
    enum dlock_status status = read_variable(conn, text, found, sizeof found, err);

    if (status != DLOCK_OK)
        return status;
    conn->flush = strtol(found, NULL, 10);
    variable.advice = conn->flush == 0 ? NOT_WRITTEN : NOT_SYNCED;
    variable.clears = flush_costs(conn->flush);
    if (conn->config->strategy == MY_SESSION) /* which ends with the server in any case */
        variable.clears &= ~DLOCK_CAP_CRASH_SAFE;
    report(fn, arg, &variable, found);
    return DLOCK_OK;
}

static enum dlock_status report_connections(struct my_connection *conn, dlock_check_fn *fn,
                                            void *arg, struct dlock_error *err)
{
    static const struct variable connections = {.name = "connections"};
    char text[128], found[32];
    enum dlock_status status = DLOCK_INTERNAL;

    (void)snprintf(text, sizeof text,
                   "SELECT COUNT(*) FROM %s WHERE user = SUBSTRING_INDEX(USER(), '@', 1)",
                   conn->dialect->processlist);
    status = read_variable(conn, text, found, sizeof found, err);
    if (status == DLOCK_OK)
        report(fn, arg, &connections, found);
    return status;
}

/* The tables may have been changed since the last check. */
static enum dlock_status report_tables(struct my_connection *conn, dlock_check_fn *fn, void *arg,
                                       struct dlock_error *err)
{
    static const struct variable tables = {.name = "tables"};
    enum dlock_status status = my_schema_recheck(conn, err);
    char found[256];

    (void)snprintf(found, sizeof found, "%s.%s*, InnoDB, strategy %s, version %d",
                   conn->config->database, conn->config->prefix, conn->config->strategy_name,
                   MY_SCHEMA_VERSION);
    if (status == DLOCK_OK)
        report(fn, arg, &tables, found);
    return status;
}

enum dlock_status my_probe(struct my_connection *conn, dlock_check_fn *fn, void *arg,
                           struct dlock_error *err)
{
    enum dlock_status status = report_tables(conn, fn, arg, err);
    char found[256];

    if (status == DLOCK_OK)
        status = report_flush(conn, fn, arg, err);

    for (size_t i = 0; status == DLOCK_OK && i < sizeof variables / sizeof variables[0]; i++) {
        const struct variable *variable = &variables[i];

        if (variable->only != NULL && strcmp(variable->only, conn->dialect->name) != 0)
            continue;
        status = read_variable(conn, variable->text, found, sizeof found, err);
        if (status == DLOCK_OK)
            report(fn, arg, variable, found);
    }
    if (status == DLOCK_OK)
        status = report_connections(conn, fn, arg, err);
    my_query_end_read(conn);
    return status;
}
